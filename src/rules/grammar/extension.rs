//! Match and target extensions that are kept as text, and their options.

use std::fmt;

use super::token::{self, Flag, next_flag, tokens};

/// Unsupported match or target, kept as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extension {
    /// Word after `-m` or `-j`; empty for options that belong to neither, such as `-f`.
    pub name: Box<str>,
    /// Options in the order in which they were written.
    pub options: Box<str>,
}

/// One option of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExtensionOption {
    /// The option has a `!` in front of it.
    pub(crate) negated: bool,
    pub(crate) name: Box<str>,
    pub(crate) values: Vec<Box<str>>,
}

impl Extension {
    pub(super) fn new(name: &str, flags: &[Flag<'_>]) -> Self {
        Self {
            name: name.into(),
            options: token::options_text(flags),
        }
    }

    pub(super) fn write_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.options.is_empty() {
            return Ok(());
        }
        write!(f, " {}", self.options)
    }

    /// Splits the text into options; `None` if it is not a list of options.
    pub(crate) fn read_options(&self) -> Option<Vec<ExtensionOption>> {
        let words = tokens(&self.options).ok()?;
        let mut options = Vec::new();
        let mut rest = words.as_slice();
        while !rest.is_empty() {
            let (flag, after) = next_flag(rest).ok()?;
            options.push(ExtensionOption {
                negated: flag.negated,
                name: flag.name.into(),
                values: flag
                    .values
                    .iter()
                    .map(|value| (*value.text).into())
                    .collect(),
            });
            rest = after;
        }
        Some(options)
    }
}

impl ExtensionOption {
    /// Returns the only value; `None` if there is none or more than one.
    pub(crate) fn only_value(&self) -> Option<&str> {
        match self.values.as_slice() {
            [value] => Some(value),
            _ => None,
        }
    }
}
