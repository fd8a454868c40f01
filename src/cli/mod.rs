//! Command line of the program: one module for each subcommand, and what they share.

mod arguments;
#[cfg(feature = "tools")]
mod bundle;
#[cfg(feature = "tools")]
mod check;
mod cleanup;
#[cfg(feature = "tools")]
mod cluster;
mod command;
#[cfg(feature = "tools")]
mod completion;
#[cfg(feature = "tools")]
mod daemon;
#[cfg(feature = "tools")]
mod diff;
mod exit;
#[cfg(feature = "tools")]
mod explain;
#[cfg(feature = "tools")]
mod history;
#[cfg(feature = "tools")]
mod manual;
#[cfg(feature = "tools")]
mod redact;
#[cfg(feature = "tools")]
mod render;
mod run;
mod runtime;
#[cfg(feature = "tools")]
mod services;
#[cfg(feature = "tools")]
mod snapshot;
#[cfg(feature = "tools")]
mod status;
mod terminal;

pub use command::main;
#[cfg(feature = "testing")]
pub use snapshot::past_rules;
