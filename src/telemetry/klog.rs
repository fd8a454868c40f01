//! Log lines as kube-proxy writes them: klog's text format, and the JSON of Kubernetes components.
//!
//! One record is one line: line ends in messages and values are escaped.
//!
//! # Source
//!
//! Upstream: klog internal/buffer/buffer.go, `FormatHeader`; internal/serialize/keyvalues.go;
//! `staging/src/k8s.io/component-base/logs/json/json.go` (v1.37)
//!
//! Differs from upstream: times are in UTC, and values of several lines are quoted. klog writes
//! such values in a block of lines.

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// Key of an error, in both formats.
const ERROR_KEY: &str = "err";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KlogFormat {
    /// `I1123 19:07:00.123456    4711 daemon.rs:52] "starting" node="a"`
    Text,
    /// `{"ts":1795461676123.4,"caller":"app/daemon.rs:52","msg":"starting","v":0,"node":"a"}`
    Json,
}

/// Formats events as kube-proxy does.
#[derive(Debug)]
pub(super) struct KlogLines {
    pub(super) format: KlogFormat,
    pub(super) clock: fn() -> SystemTime,
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
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
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

impl Record {
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
