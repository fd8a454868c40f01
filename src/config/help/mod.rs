//! Texts of help and manual pages.
//!
//! Help has descriptions, examples and exit codes, pages have all sections. Lines have at most 76
//! columns, so that help does not wrap them; pages join the lines of a paragraph.

mod daemon;
#[cfg(feature = "tools")]
mod tools;

use std::fmt::Write as _;

pub(super) use daemon::{CLEANUP, RUN};
#[cfg(feature = "tools")]
pub(super) use tools::{COMPLETIONS, DIFF, EXPLAIN, MAN, RENDER, SERVICES};
#[cfg(feature = "tools")]
pub(crate) use tools::{ENVIRONMENT, FILES, help_of};

/// Texts of the program or of one of its commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandHelp {
    /// Name of the command; empty for the program.
    pub name: &'static str,
    /// Paragraphs, separated by empty lines.
    pub description: &'static str,
    /// Captions, and the command lines that they announce, indented.
    pub examples: &'static str,
    /// Exit codes, each with its meaning, whose further lines are indented; without
    /// [`INVALID_FLAGS`].
    pub exit_status: &'static str,
}

impl CommandHelp {
    /// Renders the sections that follow the flags in help.
    pub(super) fn after_flags(&self) -> String {
        let indented = |lines: &str| format!("  {}\n", lines.replace('\n', "\n  "));
        let mut text = format!("Examples:\n{}", indented(self.examples));
        if !self.description.is_empty() {
            let _ = write!(text, "\n{}\n", self.description);
        }
        let status = indented(self.exit_status);
        let _ = write!(text, "\nExit codes:\n{status} {INVALID_FLAGS}");
        text
    }
}

/// Last exit code of every command.
pub(crate) const INVALID_FLAGS: &str = "64  invalid flags or configuration file; nothing was done";
