//! `run`: the daemon.
//!
//! Apart from [`app`](crate::app), which it calls once the flags, the file and the log are in
//! order. Nothing is touched, and nothing written, before they are.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::{file, log};
use crate::app;
use crate::config::{self, LoggingFormat, RunArgs, environment};
use crate::telemetry::Format;

/// Runs until it is told to end.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<()> {
    let file = args.file.config.as_deref().map(file::read).transpose()?;
    let config = config::run(args, file.as_ref(), &environment::host_name())?;
    let format = match config.logging {
        LoggingFormat::Text => Format::Text,
        LoggingFormat::Json => Format::Json,
    };
    log::install(format, config.verbosity, environment::log_filter())?;
    for note in &config.notes {
        tracing::info!("{note}");
    }
    match &args.file.write_config_to {
        Some(path) => write(path, &config.configuration.to_yaml()),
        None => app::run(&config),
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    tracing::info!("wrote the configuration to `{}`", path.display());
    Ok(())
}
