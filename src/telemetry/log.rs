//! Log output of the process: formats, ours and those of kube-proxy (klog's text, and the JSON of
//! Kubernetes components), color, the levels that `-v` stands for, and the text of errors.
//!
//! kube-proxy's `-v` keeps its meaning: higher numbers log more, and the modules of the daemon log
//! more than its libraries. One record is one line: line ends in messages and values are escaped.
//!
//! # Source
//!
//! Upstream: klog internal/buffer/buffer.go, `FormatHeader`; internal/serialize/keyvalues.go;
//! `staging/src/k8s.io/component-base/logs/json/json.go` (v1.37)
//!
//! Differs from upstream: times are in UTC, and values of several lines are quoted. klog writes
//! such values in a block of lines.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::{self, Debug};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use super::repeats::WithoutRepeats;
use crate::clock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    /// Human-readable: time, level, module, message and fields.
    #[default]
    Text,
    /// One JSON object a line, with the fields next to the message.
    Json,
    /// Text as kube-proxy writes it.
    Klog,
    /// JSON with the keys of kube-proxy.
    KlogJson,
    /// `warning: ...`, as errors of commands are printed. Repeated lines are dropped.
    Plain,
}

/// Options of the log. All lines go to stderr.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogOptions {
    pub format: Format,
    /// kube-proxy's `-v`.
    pub verbosity: u8,
    /// Value of `RUST_LOG`; it replaces the verbosity.
    pub filter: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The filter of the options does not parse.
    #[error(
        "RUST_LOG: `{filter}` is not a valid log filter\nhint: use a form like \
         `info,deltaproxy=debug`"
    )]
    Filter {
        /// Filter as given.
        filter: String,
        source: ParseError,
    },
    /// The process has a global logger already.
    #[error("logging is set up already")]
    Installed,
}

/// Handle that changes the log level while the process runs.
#[derive(Debug, Clone)]
pub(crate) struct LogLevel {
    handle: reload::Handle<Targets, Registry>,
    /// Levels that `RUST_LOG` sets.
    set_by_filter: Targets,
}

impl LogLevel {
    /// Sets the level that `-v` with this number stands for. Modules that only `RUST_LOG` names
    /// keep their level. Returns false if the log is closed.
    pub(crate) fn set(&self, verbosity: u8) -> bool {
        let targets = with_levels(self.set_by_filter.clone(), verbosity);
        self.handle.reload(targets).is_ok()
    }
}

/// Installs the logger of the whole process.
pub(crate) fn install(options: &LogOptions, color: bool) -> Result<LogLevel, LogError> {
    let (subscriber, level) = subscriber(options, color, io::stderr)?;
    subscriber.try_init().map_err(|_| LogError::Installed)?;
    Ok(level)
}

fn subscriber<W>(
    options: &LogOptions,
    color: bool,
    writer: W,
) -> Result<(impl Subscriber + Send + Sync + use<W>, LogLevel), LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (set_by_filter, targets) = match &options.filter {
        Some(filter) => {
            let targets = targets(filter).map_err(|source| LogError::Filter {
                filter: filter.clone(),
                source,
            })?;
            (targets.clone(), targets)
        }
        None => (
            Targets::new(),
            with_levels(Targets::new(), options.verbosity),
        ),
    };
    let (filter, handle) = reload::Layer::new(targets);
    let subscriber =
        tracing_subscriber::registry()
            .with(filter)
            .with(layer(options.format, color, writer));
    let level = LogLevel {
        handle,
        set_by_filter,
    };
    Ok((subscriber, level))
}

fn layer<S, W>(format: Format, color: bool, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(color);
    let klog = |format| {
        WithoutRepeats::new(
            KlogLines {
                format,
                clock: clock::wall,
            },
            clock::instant,
        )
    };
    match format {
        Format::Text => Box::new(
            layer
                .fmt_fields(debug_fn(write_field_on_one_line).delimited(" "))
                .map_event_format(|lines| WithoutRepeats::new(lines, clock::instant)),
        ),
        Format::Plain => Box::new(
            layer
                .fmt_fields(debug_fn(write_field).delimited(" "))
                .event_format(PlainFormat::default()),
        ),
        Format::Json => Box::new(
            layer
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false)
                .map_event_format(|lines| WithoutRepeats::new(lines, clock::instant)),
        ),
        Format::Klog => Box::new(layer.event_format(klog(KlogFormat::Text))),
        Format::KlogJson => Box::new(layer.event_format(klog(KlogFormat::Json))),
    }
}

/// Writes the message or another field of an event. Fields hold names of files, objects and
/// settings, so whatever could end the line or act on a terminal is escaped. JSON escapes what
/// could end a line by itself.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    write_text(writer, field, &escaped(&format!("{value:?}")))
}

/// Does the same, and joins a hint to its line: one record is one line.
fn write_field_on_one_line(
    writer: &mut Writer<'_>,
    field: &Field,
    value: &dyn Debug,
) -> fmt::Result {
    let text = on_one_line(&escaped(&format!("{value:?}")));
    write_text(writer, field, &text)
}

fn write_text(writer: &mut Writer<'_>, field: &Field, text: &str) -> fmt::Result {
    match field.name() {
        "message" => writer.write_str(text),
        name => write!(writer, "{name}={text}"),
    }
}

/// Escapes characters that could forge a line or act on a terminal: control characters, and those
/// that reverse the direction of text. Tabs stay, as does a line end that a hint follows.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| {
        let turns_text = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns_text || c.is_control() && c != '\t'
    };
    // Nearly all texts are printable ASCII, which is tested without decoding.
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~');
    if text.as_bytes().iter().all(is_printable) || !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let begins_hint = || {
            text.get(at..)
                .is_some_and(|rest| rest.starts_with("\nhint: "))
        };
        if is_harmful(c) && !begins_hint() {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Parses a filter; blank directives and spaces around others are dropped, as a list in a manifest
/// may have them.
fn targets(filter: &str) -> Result<Targets, ParseError> {
    let directives = filter.split(',').map(str::trim);
    let directives = directives.filter(|directive| !directive.is_empty());
    directives.collect::<Vec<_>>().join(",").parse()
}

/// Adds the levels that a `-v` number stands for; of two for the same module, the last one counts.
/// kube-proxy logs its steady work from 2 on, each object from 5 on and each request from 8 on. The
/// text of partial restores has a target of its own, from 4 on: 2 is what many clusters run with.
fn with_levels(targets: Targets, verbosity: u8) -> Targets {
    const OWN: &str = "deltaproxy";
    let (default, modules): (_, &[(&str, LevelFilter)]) = match verbosity {
        0 | 1 => (LevelFilter::WARN, &[(OWN, LevelFilter::INFO)]),
        2 | 3 => (
            LevelFilter::INFO,
            &[
                (OWN, LevelFilter::DEBUG),
                ("deltaproxy::payload", LevelFilter::INFO),
            ],
        ),
        4 => (LevelFilter::INFO, &[(OWN, LevelFilter::DEBUG)]),
        5..=7 => (
            LevelFilter::DEBUG,
            &[
                ("h2", LevelFilter::INFO),
                ("hyper", LevelFilter::INFO),
                ("hyper_util", LevelFilter::INFO),
                ("rustls", LevelFilter::INFO),
                (OWN, LevelFilter::TRACE),
            ],
        ),
        8.. => (
            LevelFilter::TRACE,
            &[
                ("h2", LevelFilter::DEBUG),
                ("hyper", LevelFilter::DEBUG),
                ("rustls", LevelFilter::DEBUG),
                ("kube", LevelFilter::DEBUG),
            ],
        ),
    };
    targets
        .with_default(default)
        .with_targets(modules.iter().copied())
}

/// Format of commands that end soon: neither the time nor the module helps their readers. Each
/// line is printed once, as the two sides of a comparison may warn of the same object.
#[derive(Debug, Default)]
struct PlainFormat {
    printed: Mutex<BTreeSet<String>>,
}

impl<S, N> FormatEvent<S, N> for PlainFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = format!("{}: ", level_word(*event.metadata().level()));
        let fields = context.field_format();
        fields.format_fields(Writer::new(&mut line), event)?;
        line.push('\n');
        // Behind a poisoned lock a line is rather printed twice than lost.
        let is_new = self
            .printed
            .lock()
            .map_or(true, |mut printed| printed.insert(line.clone()));
        if is_new {
            writer.write_str(&line)?;
        }
        Ok(())
    }
}

/// Returns an error with all its causes in one line. A cause that its error quotes already is not
/// repeated.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.ends_with(&message) {
            text = format!("{text}: {message}");
        }
        source = cause.source();
    }
    text
}

/// Returns a message of a program, or an error with a hint, on one line: one record is one line.
pub(crate) fn on_one_line(text: &str) -> String {
    text.trim().replace('\n', "; ")
}

const fn level_word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "note",
        Level::DEBUG | Level::TRACE => "detail",
    }
}

/// Key of an error, in both formats.
const ERROR_KEY: &str = "err";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KlogFormat {
    /// `I1123 19:07:00.123456    4711 daemon.rs:52] "starting" node="a"`
    Text,
    /// `{"ts":1795461676123.4,"caller":"app/daemon.rs:52","msg":"starting","v":0,"node":"a"}`
    Json,
}

/// Formats events as kube-proxy does.
#[derive(Debug)]
struct KlogLines {
    format: KlogFormat,
    clock: fn() -> SystemTime,
}

impl<S, N> FormatEvent<S, N> for KlogLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut record = Record::default();
        event.record(&mut record);
        let now = Timestamp::try_from((self.clock)()).unwrap_or_default();
        match self.format {
            KlogFormat::Text => record.write_text(&mut writer, event.metadata(), now),
            KlogFormat::Json => record.write_json(&mut writer, event.metadata(), now),
        }
    }
}

#[derive(Debug, Default)]
struct Record {
    message: String,
    error: Option<Value>,
    fields: Map<String, Value>,
}

impl Record {
    fn write_text(
        &self,
        writer: &mut Writer<'_>,
        metadata: &Metadata<'_>,
        now: Timestamp,
    ) -> fmt::Result {
        let severity = match *metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            Level::INFO | Level::DEBUG | Level::TRACE => 'I',
        };
        write!(
            writer,
            "{severity}{} {:7} {}] {}",
            now.strftime("%m%d %H:%M:%S.%6f"),
            std::process::id(),
            caller(metadata, 1),
            Value::from(self.message.as_str()),
        )?;
        let error = self.error.iter().map(|error| (ERROR_KEY, error));
        let fields = self.fields.iter().map(|(key, value)| (key.as_str(), value));
        for (key, value) in error.chain(fields) {
            write!(writer, " {key}={value}")?;
        }
        writer.write_char('\n')
    }

    fn write_json(
        self,
        writer: &mut Writer<'_>,
        metadata: &Metadata<'_>,
        now: Timestamp,
    ) -> fmt::Result {
        let head = [
            ("ts", milliseconds(now).into()),
            ("caller", caller(metadata, 2).into()),
            ("msg", self.message.into()),
        ];
        // Records of errors have no verbosity.
        let verbosity = match *metadata.level() {
            Level::ERROR => None,
            Level::WARN | Level::INFO => Some(("v", 0.into())),
            Level::DEBUG => Some(("v", 2.into())),
            Level::TRACE => Some(("v", 5.into())),
        };
        let error = self.error.map(|error| (ERROR_KEY, error));
        let known = head.into_iter().chain(verbosity).chain(error);
        let known = known.map(|(key, value): (&str, Value)| (key.to_owned(), value));
        let mut separator = '{';
        for (key, value) in known.chain(self.fields) {
            write!(writer, "{separator}{}:{value}", Value::from(key))?;
            separator = ',';
        }
        writer.write_str("}\n")
    }

    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(message)) => self.message = message,
            ("error" | "cause", value) if self.error.is_none() => self.error = Some(value),
            // Keys of the format must not appear twice in a JSON object.
            (name @ ("ts" | "caller" | "msg" | "v" | "err"), value) => {
                self.fields.insert(format!("{name}_"), value);
            }
            (name, value) => {
                self.fields.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}

/// Returns file and line of an event, with the last `parts` parts of the path.
fn caller(metadata: &Metadata<'_>, parts: usize) -> String {
    let path = Path::new(metadata.file().unwrap_or("unknown"));
    let all: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let from = all.len().saturating_sub(parts);
    let last = all.get(from..).unwrap_or_default().join("/");
    format!("{last}:{}", metadata.line().unwrap_or_default())
}

/// Milliseconds since 1970, with a fraction.
#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of this age have 51 bits"
)]
fn milliseconds(time: Timestamp) -> f64 {
    time.as_microsecond() as f64 / 1000.0
}

#[cfg(test)]
#[path = "tests/log.rs"]
pub(super) mod tests;
