//! Tests of the flags: what is typed, and what it amounts to.
//!
//! Apart as a folder because there are more flags than lines of code about each.

mod normalizing;
mod resolving;

use clap::Parser;

use super::*;

/// `run`'s configuration, or the error as it is shown; flags are separated by blanks.
fn configured(flags: &str) -> Result<Config, String> {
    let typed = ["deltaproxy", "run"]
        .into_iter()
        .chain(flags.split_whitespace());
    let cli = Cli::try_parse_from(normalize(typed.map(Into::into))).map_err(|e| e.to_string())?;
    let Command::Run(args) = cli.command else {
        return Err("not `run`".to_owned());
    };
    run(&args, "Node-1").map_err(|error| error.to_string())
}
