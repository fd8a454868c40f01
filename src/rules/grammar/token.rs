//! Splits a line into words and options, quotes values for printing, and keeps extensions that are
//! not modeled as text.
//!
//! `iptables-restore` differs from a shell: a backslash escapes only inside double quotes, and the
//! closing quote ends the word.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use super::condition::Negatable;
use crate::rules::error::LineError;

/// One word of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// The word without quotes and escapes.
    pub(super) text: Cow<'a, str>,
    /// A quoted word is a value even if it looks like an option.
    pub(super) quoted: bool,
}

impl Token<'_> {
    fn is_option(&self) -> bool {
        !self.quoted && self.text.len() > 1 && self.text.starts_with('-')
    }

    /// Reports whether this is the `!` before a negated option.
    fn is_not(&self) -> bool {
        !self.quoted && self.text == "!"
    }
}

/// Words of a line; the longest rule of a proxy has 23. Those of a hundred thousand rules are read
/// without an allocation.
pub(super) type Tokens<'a> = SmallVec<[Token<'a>; 24]>;

/// Splits a line into its words, which are added to `found`.
pub(super) fn tokens<'a>(line: &'a str, found: &mut Tokens<'a>) -> Result<(), LineError> {
    let mut rest = without_blanks(line);
    while !rest.is_empty() {
        let mut bytes = rest.bytes();
        let end = bytes.position(|byte| is_blank(byte) || byte == b'"');
        let end = end.unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let (token, after) = match after.strip_prefix('"') {
            Some(inside) => quoted(word, inside)?,
            None => (plain(word), after),
        };
        found.push(token);
        rest = without_blanks(after);
    }
    Ok(())
}

/// Returns the text after the blanks at its beginning.
pub(in crate::rules) fn without_blanks(text: &str) -> &str {
    let mut bytes = text.bytes();
    let begin = bytes.position(|byte| !is_blank(byte));
    text.get(begin.unwrap_or(text.len())..).unwrap_or_default()
}

/// Returns the text before the first blank, and the one after that.
pub(in crate::rules) fn until_blank(text: &str) -> Option<(&str, &str)> {
    let at = text.bytes().position(is_blank)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

const fn plain(word: &str) -> Token<'_> {
    Token {
        text: Cow::Borrowed(word),
        quoted: false,
    }
}

/// Returns the word that begins with `word` and continues inside quotes, and the rest of the line.
fn quoted<'a>(word: &'a str, inside: &'a str) -> Result<(Token<'a>, &'a str), LineError> {
    let end = inside
        .find(['"', '\\'])
        .ok_or(LineError::UnterminatedQuote)?;
    if let Some((text, after)) = inside.split_at_checked(end)
        && let (Some(after), true) = (after.strip_prefix('"'), word.is_empty())
    {
        let text = Cow::Borrowed(text);
        return Ok((Token { text, quoted: true }, after));
    }
    let mut text = String::from(word);
    let mut chars = inside.chars();
    loop {
        match chars.next().ok_or(LineError::UnterminatedQuote)? {
            '"' => break,
            '\\' => text.push(chars.next().ok_or(LineError::UnterminatedQuote)?),
            other => text.push(other),
        }
    }
    let text = Cow::Owned(text);
    Ok((Token { text, quoted: true }, chars.as_str()))
}

/// One option of a rule and its values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flag<'a> {
    pub(super) negated: bool,
    pub(super) name: &'a str,
    pub(super) values: &'a [Token<'a>],
}

impl<'a> Flag<'a> {
    /// Returns the only value; `None` if there is none or more than one.
    pub(super) fn only_value(&self) -> Option<&'a str> {
        match self.values {
            [value] => Some(value.text.as_ref()),
            _ => None,
        }
    }

    /// Returns the only value with the `!` of the option.
    pub(super) fn value(&self) -> Result<Negatable<&'a str>, LineError> {
        match self.values {
            [] => Err(LineError::MissingValue(self.name.to_owned())),
            [value] => Ok(Negatable {
                negated: self.negated,
                value: value.text.as_ref(),
            }),
            [_, extra, ..] => Err(LineError::UnexpectedWord(extra.text.to_string())),
        }
    }
}

/// Options that have exactly one value, even if it looks like an option: `--comment -x` is legal.
const TAKES_ONE: &[&str] = &["--comment", "--log-prefix", "--nflog-prefix", "--name"];

/// Splits the first option off a list of words.
pub(super) fn next_flag<'a>(
    words: &'a [Token<'a>],
) -> Result<(Flag<'a>, &'a [Token<'a>]), LineError> {
    let (negated, words) = match words {
        [first, rest @ ..] if first.is_not() => (true, rest),
        _ => (false, words),
    };
    let (name, rest) = match words {
        [name, rest @ ..] if name.is_option() => (name.text.as_ref(), rest),
        [other, ..] => return Err(LineError::UnexpectedWord(other.text.to_string())),
        [] => return Err(LineError::UnexpectedWord("!".to_owned())),
    };
    let count = if TAKES_ONE.contains(&name) {
        rest.len().min(1)
    } else {
        rest.iter()
            .take_while(|word| !word.is_option() && !word.is_not())
            .count()
    };
    let (values, after) = rest.split_at_checked(count).unwrap_or((rest, &[]));
    Ok((
        Flag {
            negated,
            name,
            values,
        },
        after,
    ))
}

/// Match or target extension with its options.
#[derive(Debug, Default)]
pub(super) struct OptionGroup<'a> {
    pub(super) name: &'a str,
    /// Nearly all have one or two.
    pub(super) flags: SmallVec<[Flag<'a>; 2]>,
}

/// Returns options as text, quoted so that the text parses to the same options.
pub(super) fn options_text(flags: &[Flag<'_>]) -> Box<str> {
    let mut text = String::new();
    for flag in flags {
        let blank = if text.is_empty() { "" } else { " " };
        text.push_str(blank);
        text.push_str(if flag.negated { "! " } else { "" });
        text.push_str(flag.name);
        for value in flag.values {
            text.push(' ');
            // Writing to a String cannot fail.
            let _ = write_value(&mut text, &value.text);
        }
    }
    text.into_boxed_str()
}

/// Prints a value that libxtables knows to be a string: unquoted only if it is one plain word.
pub(super) fn write_text(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !text.is_empty() && text.chars().all(is_plain) {
        return f.write_str(text);
    }
    write_quoted(f, text)
}

/// Prints a value of unknown type: unquoted if it parses to the same word.
fn write_value(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    let is_odd = text.is_empty() || text == "!" || text.starts_with('-');
    if is_odd || text.contains([' ', '\t', '"', '\\', '\'']) {
        return write_quoted(f, text);
    }
    f.write_str(text)
}

/// Prints a name, in quotes only if it needs them.
pub(super) struct Word<'a>(pub(super) &'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, self.0)
    }
}

fn write_quoted(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '\'') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}

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
            options: options_text(flags),
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
        let mut words = Tokens::new();
        tokens(&self.options, &mut words).ok()?;
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

#[cfg(test)]
#[path = "tests/token.rs"]
mod tests;
