//! `run`: the daemon.
//!
//! Apart from [`app`](crate::app), which it calls once the flags and the log are in order.

use std::io::IsTerminal;

use crate::app;
use crate::config::{self, LoggingFormat, RunArgs, environment};
use crate::telemetry::{self, Color, Format, LogOptions};

/// Runs until it is told to end.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<()> {
    let config = config::run(args, &environment::host_name())?;
    let is_plain = environment::no_color() || !std::io::stderr().is_terminal();
    telemetry::install(&LogOptions {
        format: match config.logging {
            LoggingFormat::Text => Format::Text,
            LoggingFormat::Json => Format::Json,
        },
        verbosity: config.verbosity,
        color: if is_plain { Color::Never } else { Color::Auto },
        filter: environment::log_filter(),
    })?;
    app::run(&config)
}
