//! `run`: the daemon.
//!
//! Apart from [`app`](crate::app), which it calls once the flags and the log are in order.

use super::log;
use crate::app;
use crate::config::{self, LoggingFormat, RunArgs, environment};
use crate::telemetry::Format;

/// Runs until it is told to end.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<()> {
    let config = config::run(args, &environment::host_name())?;
    let format = match config.logging {
        LoggingFormat::Text => Format::Text,
        LoggingFormat::Json => Format::Json,
    };
    log::install(format, config.verbosity, environment::log_filter())?;
    app::run(&config)
}
