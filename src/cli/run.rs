//! `run`: the daemon, and the one-shot actions that flags select in place of it.
//!
//! Nothing is changed or written before the flags and the file are validated and the log is
//! installed; then [`app`](crate::app) takes over.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::{arguments, cleanup, exit, terminal};
use crate::app;
use crate::config::{
    self, Action, ConfigFile, LogStyle, LoggingFormat, RunArgs, VERSION, VersionArg, environment,
};
use crate::sync::SyncMode;
use crate::telemetry::Format;

/// Runs the daemon until a signal ends it, or a one-shot action.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<()> {
    if args.version == Some(VersionArg::Print) {
        return terminal::stdout(|out| Ok(writeln!(out, "deltaproxy {VERSION}")?));
    }
    let style = args.log_style();
    let from_flags = if args.asks_for_json() {
        LoggingFormat::Json
    } else {
        LoggingFormat::Text
    };
    let mut format = log_format(from_flags, style);
    run_with_log(args, &mut format).map_err(|error| match format {
        Format::Text | Format::Plain => error,
        // Log pipelines parse every line of stderr.
        Format::Json | Format::Klog | Format::KlogJson => exit::log_fatal(error, format),
    })
}

/// Runs with the log that flags and file ask for, and sets its format.
fn run_with_log(args: &RunArgs, format: &mut Format) -> anyhow::Result<()> {
    let file = args
        .config
        .as_deref()
        .map(arguments::read_file)
        .transpose()?;
    let host_name = environment::host_name();
    let config = config::run(args, file.as_ref(), &host_name)?;
    *format = log_format(config.logging, config.log_style);
    let level = terminal::install_log(*format, config.verbosity, environment::log_filter())?;
    log_settings(&config);
    match (&args.write_config_to, config.action) {
        (Some(path), _) => write(path, &config.configuration.to_yaml()),
        (None, Action::Cleanup) => cleanup::everywhere(config.rules.backend, mode(&config)),
        (None, Action::Init) => app::init(&config),
        (None, Action::Run) => {
            let validate = |file: &ConfigFile| {
                config::run(args, Some(file), &host_name).map_err(|unusable| unusable.to_string())
            };
            app::run(&config, &validate, level)
        }
    }
}

fn log_format(format: LoggingFormat, style: LogStyle) -> Format {
    match (format, style.is_klog(environment::program_name())) {
        (LoggingFormat::Text, true) => Format::Klog,
        (LoggingFormat::Json, true) => Format::KlogJson,
        (LoggingFormat::Text, false) => Format::Text,
        (LoggingFormat::Json, false) => Format::Json,
    }
}

/// Logs the flags, if verbosity is above 0, and notes on them.
///
/// Upstream: `staging/src/k8s.io/component-base/cli/flag/flags.go`, `PrintFlags` (v1.36)
fn log_settings(config: &config::Config) {
    if config.verbosity > 0 {
        for (name, value) in &config.flags {
            tracing::info!("FLAG: --{name}={value:?}");
        }
    }
    for note in &config.notes {
        tracing::info!("{note}");
    }
}

fn mode(config: &config::Config) -> cleanup::CleanupMode {
    if config.mode == SyncMode::DryRun {
        cleanup::CleanupMode::Show
    } else {
        cleanup::CleanupMode::Do
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    tracing::info!("wrote the configuration to `{}`", path.display());
    Ok(())
}
