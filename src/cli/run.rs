//! `run`: the daemon, and what is done in its place.
//!
//! Apart from [`app`](crate::app), which it calls once the flags, the file and the log are in
//! order. Nothing is touched, and nothing written, before they are.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::{cleanup, file, log, output};
use crate::app;
use crate::config::{
    self, Action, ConfigFile, LoggingFormat, RunArgs, VERSION, VersionArg, environment,
};
use crate::telemetry::Format;

/// Runs until it is told to end.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<()> {
    if args.version == Some(VersionArg::Print) {
        return output::stdout(|out| Ok(writeln!(out, "deltaproxy {VERSION}")?));
    }
    let file = args.file.config.as_deref().map(file::read).transpose()?;
    let host_name = environment::host_name();
    let config = config::run(args, file.as_ref(), &host_name)?;
    let format = match config.logging {
        LoggingFormat::Text => Format::Text,
        LoggingFormat::Json => Format::Json,
    };
    let level = log::install(format, config.verbosity, environment::log_filter())?;
    say(&config);
    match (&args.file.write_config_to, config.action) {
        (Some(path), _) => write(path, &config.configuration.to_yaml()),
        (None, Action::Cleanup) => cleanup::everywhere(config.rules.backend, step(&config)),
        (None, Action::Init) => app::init(&config),
        (None, Action::Run) => {
            let judge = |file: &ConfigFile| {
                config::run(args, Some(file), &host_name).map_err(|unusable| unusable.to_string())
            };
            app::run(&config, &judge, level)
        }
    }
}

/// What was typed, for who asks for more than nothing to be logged, and what came to mind about it.
///
/// Upstream: `staging/src/k8s.io/component-base/cli/flag/flags.go`, `PrintFlags` (v1.36)
fn say(config: &config::Config) {
    if config.verbosity > 0 {
        for (name, value) in &config.flags {
            tracing::info!("FLAG: --{name}={value:?}");
        }
    }
    for note in &config.notes {
        tracing::info!("{note}");
    }
}

fn step(config: &config::Config) -> cleanup::Step {
    if config.is_dry_run {
        cleanup::Step::Show
    } else {
        cleanup::Step::Do
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    tracing::info!("wrote the configuration to `{}`", path.display());
    Ok(())
}
