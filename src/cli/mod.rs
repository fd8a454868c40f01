//! One file for each subcommand, and what they have in common: exit codes and output.
//!
//! Apart from [`app`](crate::app) because commands come and go, and the daemon stays.
//!
//! # Exit codes
//!
//! 0: done. 1: failed. 64: unusable flags. Of commands that compare, 0: equal. 1: different. 2:
//! could not tell.

mod cleanup;
mod diff;
mod exit;
mod explain;
mod file;
mod log;
mod names;
mod output;
mod packaging;
mod program;
mod progress;
mod render;
mod restore;
mod run;
mod services;
mod snapshot;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::config::{Command, normalize};

/// Runs the command that `args` ask for.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match program::parse(&normalize(args)) {
        Ok(cli) => cli,
        Err(error) => return exit::unusable(&error),
    };
    let result = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Render(args) => render::render(&args),
        Command::Diff(args) => return exit::compared(diff::diff(&args)),
        Command::Services(args) => services::services(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Cleanup(args) => cleanup::cleanup(&args),
        Command::Completions { shell } => packaging::completions(shell),
        Command::Man { command } => packaging::manual(command.as_deref()),
    };
    exit::code(result)
}
