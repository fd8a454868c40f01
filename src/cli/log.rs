//! Log lines of a command: stderr is talk.
//!
//! Apart because every command that reads objects may have something to say about them.

use std::io::IsTerminal;

use crate::config::environment;
use crate::telemetry::{self, Color, Format, LogLevel, LogOptions};

/// Lets log lines out; `filter` takes the place of the verbosity, until that is changed.
pub(super) fn install(
    format: Format,
    verbosity: u8,
    filter: Option<String>,
) -> anyhow::Result<LogLevel> {
    let is_plain = environment::no_color() || !std::io::stderr().is_terminal();
    let color = if is_plain { Color::Never } else { Color::Auto };
    let level = telemetry::install(&LogOptions {
        format,
        verbosity,
        color,
        filter,
    })?;
    Ok(level)
}

/// Starts the log of a command that prints data: warnings that look like its errors, unless the
/// environment says otherwise, for who looks for a fault needs the time and the module.
pub(super) fn install_quiet() -> anyhow::Result<()> {
    match environment::log_filter() {
        Some(filter) => install(Format::Text, 0, Some(filter))?,
        None => install(Format::Plain, 0, Some("warn".to_owned()))?,
    };
    Ok(())
}
