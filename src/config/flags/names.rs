//! What completion scripts ask for, as a hidden flag of each command that takes names.
//!
//! Apart from what users ask for: with it a command line says whose names are wanted, and where a
//! flag's value is expected instead, it is none.

use clap::{ArgAction, Args, ValueEnum};

/// What completion scripts ask for.
#[derive(Debug, Clone, Copy, Args)]
pub struct NamesArgs {
    /// Only names, for completion scripts
    #[arg(long = "names", value_enum, num_args = 0..=1, require_equals = true, hide = true,
          default_missing_value = "services", action = ArgAction::Set)]
    pub only: Option<NamesArg>,
}

/// `--names`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NamesArg {
    /// Of Services: with their namespaces, unless one is said
    Services,
    /// Of namespaces
    Namespaces,
}
