//! Texts of help and manual pages, in the sections of the pages.
//!
//! Help has descriptions, examples and exit codes, pages have all sections. Lines have at most 76
//! columns, so that help does not wrap them; pages join the lines of a paragraph.

mod node;
mod rules;
mod text;

use node::PROGRAM;
pub(super) use node::{CLEANUP, COMPLETIONS, MAN, RUN, VERSION};
pub(super) use rules::{DIFF, EXPLAIN, RENDER, SERVICES};
pub(crate) use text::{CommandHelp, INVALID_FLAGS};

/// Returns the texts of a command; those of the program for an unknown name.
pub(crate) fn help_of(command: &str) -> &'static CommandHelp {
    let mut all = COMMANDS.iter().copied();
    all.find(|help| help.name == command).unwrap_or(&PROGRAM)
}

const COMMANDS: [&CommandHelp; 9] = [
    &RUN,
    &RENDER,
    &DIFF,
    &SERVICES,
    &EXPLAIN,
    &CLEANUP,
    &COMPLETIONS,
    &VERSION,
    &MAN,
];
