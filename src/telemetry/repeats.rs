//! Rate limit of repeated failures in the log.
//!
//! The first records of a failure are written; of the further ones, one a minute, with the number
//! of those that were left out.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use crate::net::Locked;

/// Records of one failure that are written within [`WINDOW`].
const BURST: u32 = 3;

/// Time after which a repeated failure is written again.
const WINDOW: Duration = Duration::from_secs(60);

/// Different failures that are counted. Some ten kinds repeat at a time, each for some Services;
/// beyond this number, all are written.
const MAX_FAILURES: usize = 4096;

/// Formats events in the format of `lines`, and leaves out warnings and errors that repeat.
#[derive(Debug)]
pub(super) struct WithoutRepeats<F> {
    lines: F,
    clock: fn() -> Instant,
    seen: Locked<HashMap<u64, Repeats>>,
}

impl<F> WithoutRepeats<F> {
    pub(super) fn new(lines: F, clock: fn() -> Instant) -> Self {
        Self {
            lines,
            clock,
            seen: Locked::default(),
        }
    }

    /// Returns whether a record is written, and how many equal ones were left out before it.
    fn admit(&self, event: &Event<'_>) -> Option<u64> {
        if *event.metadata().level() > Level::WARN {
            return Some(0);
        }
        let key = Key::of(event);
        let now = (self.clock)();
        let mut seen = self.seen.lock();
        if seen.len() >= MAX_FAILURES {
            seen.retain(|_, repeats| now.duration_since(repeats.since) < WINDOW);
        }
        if seen.len() >= MAX_FAILURES && !seen.contains_key(&key) {
            return Some(0);
        }
        let repeats = seen.entry(key).or_insert(Repeats {
            since: now,
            written: 0,
            left_out: 0,
        });
        repeats.admit(now)
    }
}

impl<S, N, F> FormatEvent<S, N> for WithoutRepeats<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match self.admit(event) {
            None => Ok(()),
            Some(0) => self.lines.format_event(context, writer, event),
            Some(left_out) => {
                let mut line = String::new();
                let lines = Writer::new(&mut line);
                self.lines.format_event(context, lines, event)?;
                writer.write_str(&with_count(&line, left_out))
            }
        }
    }
}

/// Adds a field to a line of text or of JSON.
fn with_count(line: &str, left_out: u64) -> String {
    match line.strip_suffix("}\n") {
        Some(object) => format!("{object},\"left_out\":{left_out}}}\n"),
        None => format!("{} left_out={left_out}\n", line.trim_end_matches('\n')),
    }
}

#[derive(Debug)]
struct Repeats {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl Repeats {
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.since) >= WINDOW {
            // A failure that lasts is written once in a window, one that stopped is new.
            self.written = if self.left_out > 0 { BURST - 1 } else { 0 };
            self.since = now;
        }
        if self.written >= BURST {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Hash of the place of an event in the code and of its texts. Numbers are left out: attempts and
/// sizes change while a failure lasts.
#[derive(Default)]
struct Key(DefaultHasher);

impl Key {
    fn of(event: &Event<'_>) -> u64 {
        let mut key = Self::default();
        event.metadata().callsite().hash(&mut key.0);
        event.record(&mut key);
        key.0.finish()
    }
}

impl Visit for Key {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        (field.name(), value).hash(&mut self.0);
    }

    fn record_i64(&mut self, _field: &Field, _value: i64) {}

    fn record_u64(&mut self, _field: &Field, _value: u64) {}

    fn record_f64(&mut self, _field: &Field, _value: f64) {}
}

#[cfg(test)]
#[path = "tests/repeats.rs"]
mod tests;
