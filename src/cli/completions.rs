//! Completion scripts.

use clap::CommandFactory;
use clap_complete::Shell;

use super::terminal;
use crate::config::Cli;

/// Prints the completion script of a shell.
pub(super) fn script(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "deltaproxy", &mut script);
    terminal::stdout(|out| Ok(out.write_all(&script)?))
}
