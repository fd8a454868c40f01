//! Flags, resolved into the options of every other module.
//!
//! Apart, and on top, because configuration knows everyone and nobody knows configuration: each
//! module has small options of its own.

mod args;
mod duration;
pub mod environment;
mod resolve;

#[cfg(test)]
mod tests;

pub use args::{
    Cli, Command, FamilyArg, LoggingFormat, RenderArgs, RulesArgs, RunArgs, SourceArgs, normalize,
};
pub use resolve::{Config, FULL_SYNC_PERIOD, RenderConfig, Source, UsageError, render, run};
