//! Combines repeated Events into one with a count. The time is a parameter.
//!
//! # Invariants
//!
//! - An Event that is repeated while it is known is written a second time, and then at most once
//!   per refresh interval, however often it is repeated.
//! - An Event that is not repeated for some time is forgotten, after its last count was written.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/events/event_broadcaster.go, `recordToSink`, `finishSeries`,
//! `refreshExistingEventSeries` (v1.37)

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::events::v1::Event as EventObject;

use super::event::{Event, Origin, object, series};
use crate::model::ServiceName;

/// Time without a repetition after which a series ends.
const QUIET: Duration = Duration::from_secs(6 * 60);

/// Refresh interval of a series: the server deletes Events after an hour.
const REFRESH: Duration = Duration::from_secs(30 * 60);

/// Maximum Events that are remembered; further ones are not combined.
const MOST_KNOWN: usize = 1000;

/// Identity of repeated Events.
type SeriesKey = (&'static str, Option<ServiceName>);

/// Request to the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    /// Event, with its series if it was repeated.
    pub(super) object: EventObject,
    pub(super) kind: WriteKind,
}

/// State on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteKind {
    /// The Event does not exist.
    New,
    /// The Event exists, and only its series is new.
    Series,
}

#[derive(Debug)]
struct SeriesEntry {
    object: EventObject,
    count: i32,
    last: SystemTime,
    /// Time and count of the last request.
    written: (SystemTime, i32),
}

/// Events of the last minutes.
#[derive(Debug, Default)]
pub(super) struct KnownSeries(BTreeMap<SeriesKey, SeriesEntry>);

impl KnownSeries {
    /// Adds an Event; returns the request for it, if it needs one.
    pub(super) fn add(&mut self, event: &Event, origin: &Origin, at: SystemTime) -> Option<Write> {
        let fields = event.fields();
        let key = (fields.reason, fields.service.cloned());
        if let Some(entry) = self.0.get_mut(&key) {
            entry.count = entry.count.saturating_add(1);
            entry.last = at;
            return (entry.count == 2).then(|| entry.write(at));
        }
        if self.0.len() >= MOST_KNOWN {
            self.forget_oldest();
        }
        let object = object(event, origin, at);
        let write = Write {
            object: object.clone(),
            kind: WriteKind::New,
        };
        let entry = SeriesEntry {
            object,
            count: 1,
            last: at,
            written: (at, 1),
        };
        self.0.insert(key, entry);
        Some(write)
    }

    /// Ends series that were quiet, and refreshes others; returns the requests.
    pub(super) fn expire(&mut self, now: SystemTime) -> Vec<Write> {
        let since = |then: SystemTime| now.duration_since(then).unwrap_or_default();
        let mut writes = Vec::new();
        self.0.retain(|_, entry| {
            let is_over = since(entry.last) >= QUIET;
            let (written, count) = entry.written;
            if entry.count != count && (is_over || since(written) >= REFRESH) {
                writes.push(entry.write(now));
            }
            !is_over
        });
        writes
    }

    /// Reports whether there is any series.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn forget_oldest(&mut self) {
        let oldest = self.0.iter().min_by_key(|(_, entry)| entry.last);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.0.remove(&key);
        }
    }
}

impl SeriesEntry {
    fn write(&mut self, now: SystemTime) -> Write {
        self.written = (now, self.count);
        Write {
            object: EventObject {
                series: Some(series(self.count, self.last)),
                ..self.object.clone()
            },
            kind: WriteKind::Series,
        }
    }
}

#[cfg(test)]
#[path = "tests/series.rs"]
mod tests;
