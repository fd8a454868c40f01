//! Runs the command that a command line names.

use std::ffi::OsString;
use std::process::ExitCode;

use super::{arguments, cleanup, exit, run, terminal};
#[cfg(feature = "tools")]
use super::{bundle, check, completion, diff, explain, history, manual, render, services, status};
use crate::config::{Command, normalize};

/// Runs the command of a command line, whose first word is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = normalize(args);
    #[cfg(feature = "tools")]
    if let Some(code) = completion::complete(&args) {
        return code;
    }
    let cli = match arguments::parse(&args) {
        Ok(cli) => cli,
        Err(error) => return exit::unusable(&error, &args),
    };
    #[cfg(feature = "tools")]
    terminal::choose_color(cli.command.color());
    let report = exit::ErrorReport::default();
    let result = match cli.command {
        Command::Run(_) | Command::Cleanup(_) if !cfg!(target_os = "linux") => Err(
            anyhow::anyhow!("run and cleanup change the rules of a node: they work on Linux only"),
        ),
        Command::Run(args) => run::run(&args),
        #[cfg(feature = "tools")]
        Command::Render(args) => render::render(&args, &report),
        #[cfg(feature = "tools")]
        Command::Diff(args) => return exit::judged(diff::diff(&args, &report), &report),
        #[cfg(feature = "tools")]
        Command::Status(args) => return exit::judged(status::status(&args), &report),
        #[cfg(feature = "tools")]
        Command::ShadowReport(args) => return exit::judged(status::of_shadow(&args), &report),
        #[cfg(feature = "tools")]
        Command::Services(args) => return services::services(&args, &report),
        #[cfg(feature = "tools")]
        Command::Explain(args) => return explain::explain(&args, &report),
        #[cfg(feature = "tools")]
        Command::Check(args) => return exit::judged(check::check(&args), &report),
        #[cfg(feature = "tools")]
        Command::History(args) => history::history(&args),
        #[cfg(feature = "tools")]
        Command::Bundle(args) => bundle::bundle(&args),
        Command::Cleanup(args) => cleanup::cleanup(&args),
        #[cfg(feature = "tools")]
        Command::Completions { shell } => manual::script(shell),
        #[cfg(feature = "tools")]
        Command::Man { command, dir } => manual::pages(command.as_deref(), dir.as_deref()),
    };
    exit::code(result, &report)
}
