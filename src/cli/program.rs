//! The program as it is called: `deltaproxy`, or a part of kubectl.
//!
//! Apart from [`Cli`], which says what can be typed, because this is only about the name that help
//! and errors tell people to type.

use std::ffi::OsString;
use std::path::Path;

use clap::{Command, CommandFactory, FromArgMatches};

use crate::config::Cli;

/// kubectl runs `kubectl-NAME` for `kubectl NAME`.
const PLUGIN: &str = "kubectl-deltaproxy";
const AS_PLUGIN: &str = "kubectl deltaproxy";
const ALONE: &str = "deltaproxy";

/// Reads a command line, the program's name first.
pub(super) fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let mut program = named(args.first());
    let matches = program.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program))
}

fn named(program: Option<&OsString>) -> Command {
    let file = program.and_then(|program| Path::new(program).file_name());
    if file.is_none_or(|name| name != PLUGIN) {
        return Cli::command();
    }
    let retold = |command: Command| {
        let help = command.get_after_help().map(ToString::to_string);
        match help {
            Some(help) => {
                command.after_help(help.replace(&format!("{ALONE} "), &format!("{AS_PLUGIN} ")))
            }
            None => command,
        }
    };
    Cli::command().bin_name(AS_PLUGIN).mut_subcommands(retold)
}
