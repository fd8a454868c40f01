//! Where log lines go and which of them.
//!
//! Apart so that kube-proxy's `-v` keeps its meaning in one place: a bigger number says more, and
//! the daemon's own modules say more than its libraries.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use super::plain::Plain;

/// The API client warns with the whole body of an answer it cannot read, which can be a list of
/// all Services. That such an answer came is logged and counted by the watch.
const QUIET: &str = "kube_client::client=error";

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One object a line, its fields beside the message.
    Json,
    /// `warning: ...`, as errors are printed, and nothing twice.
    Plain,
}

/// Whether text may be colored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Color {
    /// If stderr is a terminal.
    #[default]
    Auto,
    /// Not even then: `NO_COLOR` is set.
    Never,
}

/// How to log. Everything goes to stderr.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How lines look.
    pub format: Format,
    /// kube-proxy's `-v`.
    pub verbosity: u8,
    /// Whether text may be colored.
    pub color: Color,
    /// The value of `RUST_LOG`; it takes the place of the verbosity.
    pub filter: Option<String>,
}

/// Why nothing will be logged.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter of the options cannot be read.
    #[error("cannot read log filter `{filter}`\nhint: RUST_LOG looks like `info,deltaproxy=debug`")]
    Filter {
        /// As it was given.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// Somebody else logs in this process already.
    #[error("logging is set up already")]
    Installed,
}

/// Changes what is logged while the process runs.
#[derive(Debug, Clone)]
pub struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Logs as `-v` with this number does. False if logging has ended.
    pub fn set(&self, verbosity: u8) -> bool {
        self.0.reload(EnvFilter::new(directives(verbosity))).is_ok()
    }
}

/// Logs the whole process from now on.
pub fn install(options: &Options) -> Result<LogLevel, LogError> {
    let terminal = options.color == Color::Auto && io::stderr().is_terminal();
    let (subscriber, level) = subscriber(options, terminal, io::stderr)?;
    subscriber.try_init().map_err(|_| LogError::Installed)?;
    Ok(level)
}

fn subscriber<W>(
    options: &Options,
    color: bool,
    writer: W,
) -> Result<(impl Subscriber + Send + Sync + use<W>, LogLevel), LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = match &options.filter {
        Some(filter) => EnvFilter::try_new(filter).map_err(|source| LogError::Filter {
            filter: filter.clone(),
            source,
        })?,
        None => EnvFilter::new(directives(options.verbosity)),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let subscriber =
        tracing_subscriber::registry()
            .with(filter)
            .with(lines(options.format, color, writer));
    Ok((subscriber, LogLevel(handle)))
}

fn lines<S, W>(format: Format, color: bool, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer).with_ansi(color);
    match format {
        Format::Text => Box::new(layer),
        Format::Plain => Box::new(layer.event_format(Plain::default())),
        Format::Json => Box::new(
            layer
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false),
        ),
    }
}

/// What a `-v` number lets through. kube-proxy logs its steady work from 2 on, each object from 5
/// on and each request from 8 on. The text of partial restores has a target of its own, from 4 on:
/// 2 is what many clusters run with.
fn directives(verbosity: u8) -> String {
    let levels = match verbosity {
        0 | 1 => "warn,deltaproxy=info",
        2 | 3 => "info,deltaproxy=debug,deltaproxy::payload=info",
        4 => "info,deltaproxy=debug",
        5..=7 => "debug,h2=info,hyper=info,hyper_util=info,rustls=info,deltaproxy=trace",
        8.. => "trace,h2=debug,hyper=debug,rustls=debug,kube=debug",
    };
    format!("{levels},{QUIET}")
}

#[cfg(test)]
#[path = "tests/logging.rs"]
pub(super) mod tests;
