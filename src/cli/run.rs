//! `run`: the daemon, and the one-shot actions that flags select in place of it.
//!
//! Nothing is changed or written before the flags and the file are validated and the log is
//! installed; then [`app`](crate::app) takes over.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use super::{arguments, cleanup, exit, terminal};
use crate::app;
use crate::config::{
    self, Action, Config, ConfigCheck, ConfigFile, ConfigNote, LogStyle, LoggingFormat, RunArgs,
    Unusable, VERSION, environment,
};
use crate::telemetry::Format;

/// Runs the daemon until a signal ends it, or a one-shot action.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<()> {
    if args.prints_version {
        return terminal::print(format!("deltaproxy {VERSION}\n"));
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
    let file = arguments::read_file(args.config.as_deref())?;
    let host_name = environment::host_name();
    let resolved = config::run(args, file.as_ref(), &host_name);
    if let Some(check) = args.config_check() {
        // Whatever the format of the log: the output is for a person or a pipeline.
        *format = Format::Plain;
        return check_config(resolved, check);
    }
    let config = resolved?;
    *format = log_format(config.logging, config.log_style);
    let level = terminal::install_log(*format, config.verbosity, environment::log_filter())?;
    log_settings(&config);
    match (&args.write_config_to, config.action) {
        (Some(path), _) => write(path, &config.configuration.to_yaml()),
        (None, Action::Cleanup) => cleanup::everywhere(config.rules.backend, config.mode),
        (None, Action::Init) => app::init(&config),
        (None, Action::Run) => {
            let validate = |file: &ConfigFile| {
                config::run(args, Some(file), &host_name).map_err(|unusable| unusable.to_string())
            };
            app::run(&config, &validate, level)
        }
    }
}

/// Prints the notes on a configuration, and whether it is valid.
///
/// # Errors
///
/// The configuration cannot be used, or has warnings and the check is strict.
fn check_config(resolved: Result<Config, Unusable>, check: ConfigCheck) -> anyhow::Result<()> {
    terminal::install_log(Format::Plain, 0, Some("info".to_owned()))?;
    let notes = match &resolved {
        Ok(config) => [&config.notes[..], config.empty_mode.as_slice()].concat(),
        Err(unusable) => unusable.notes.clone(),
    };
    arguments::log_notes(&notes);
    let is_warning = |note: &&ConfigNote| matches!(note, ConfigNote::Warning(_));
    let warnings = notes.iter().filter(is_warning).count();
    resolved?;
    if warnings > 0 && check == ConfigCheck::Strict {
        bail!("the configuration has warnings: {warnings}");
    }
    terminal::print(format!(
        "the configuration is valid; warnings: {warnings}\n"
    ))
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
/// Upstream: `staging/src/k8s.io/component-base/cli/flag/flags.go`, `PrintFlags` (v1.37)
fn log_settings(config: &Config) {
    if config.verbosity > 0 {
        for (name, value) in &config.flags {
            tracing::info!("FLAG: --{name}={value:?}");
        }
    }
    arguments::log_notes(&config.notes);
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    tracing::info!("wrote the configuration to `{}`", path.display());
    Ok(())
}
