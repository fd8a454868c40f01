//! `completions` and `man`: what packagers ask for.
//!
//! Apart because both are made from the definition of the flags, and nothing else is.

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use super::output;
use crate::config::Cli;

/// Prints the completion script of a shell.
pub(super) fn completions(shell: Shell) -> anyhow::Result<()> {
    output::stdout(|out| {
        clap_complete::generate(shell, &mut Cli::command(), "deltaproxy", out);
        Ok(())
    })
}

/// Prints the page of a command, or of the program.
pub(super) fn manual(command: Option<&str>) -> anyhow::Result<()> {
    let mut program = Cli::command();
    // Gives the commands the flags that they inherit, and their full names.
    program.build();
    let page = match command.and_then(|name| program.find_subcommand(name)) {
        Some(command) => {
            Man::new(command.clone()).title(format!("deltaproxy-{}", command.get_name()))
        }
        None => Man::new(program),
    };
    output::stdout(|out| Ok(page.render(out)?))
}
