//! What happens again and again is one event with a count.
//!
//! Apart, pure and told the time, so that six minutes pass at once in tests.
//!
//! # Invariants
//!
//! - An event that comes again while it is known is written a second time, and then no more often
//!   than a series is refreshed, however often it comes.
//! - It is forgotten once it has not come for a while, with its last count written.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/events/event_broadcaster.go, `recordToSink`, `finishSeries`,
//! `refreshExistingEventSeries` (v1.36)

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Event;
use super::object::{Origin, collection, object, series};
use crate::model::ServiceName;

/// A series ends when it has been quiet for so long.
const QUIET: Duration = Duration::from_secs(6 * 60);

/// A series that goes on is written so often: the server forgets events after an hour.
const REFRESH: Duration = Duration::from_secs(30 * 60);

/// Events that are remembered. More different ones at a time would say nothing to anybody.
const MOST_KNOWN: usize = 1000;

/// What makes two events the same.
type Key = (&'static str, Option<ServiceName>);

/// A request to the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    /// The path of the folder that it belongs into.
    pub(super) collection: String,
    /// The whole event, with its series if it is one.
    pub(super) object: Value,
    pub(super) kind: WriteKind,
}

/// What the server should have already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteKind {
    /// Nothing.
    New,
    /// The event, of which the series alone is new.
    Series,
}

#[derive(Debug)]
struct Entry {
    collection: String,
    object: Value,
    count: u32,
    last: SystemTime,
    /// When the count was last written, and which.
    written: (SystemTime, u32),
}

/// The events of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<Key, Entry>);

impl Known {
    /// An event came. What is to be written, if anything.
    pub(super) fn came(&mut self, event: &Event, origin: &Origin, at: SystemTime) -> Option<Write> {
        let key = (event.reason(), event.service().cloned());
        if let Some(entry) = self.0.get_mut(&key) {
            entry.count = entry.count.saturating_add(1);
            entry.last = at;
            return (entry.count == 2).then(|| entry.write(at));
        }
        if self.0.len() >= MOST_KNOWN {
            self.forget_oldest();
        }
        let (collection, object) = (collection(event), object(event, origin, at));
        let write = Write {
            collection: collection.clone(),
            object: object.clone(),
            kind: WriteKind::New,
        };
        let entry = Entry {
            collection,
            object,
            count: 1,
            last: at,
            written: (at, 1),
        };
        self.0.insert(key, entry);
        Some(write)
    }

    /// Time has passed. What is to be written.
    pub(super) fn passed(&mut self, now: SystemTime) -> Vec<Write> {
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

    /// Whether time means anything.
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

impl Entry {
    fn write(&mut self, now: SystemTime) -> Write {
        self.written = (now, self.count);
        let mut object = self.object.clone();
        if let Value::Object(fields) = &mut object {
            fields.insert("series".to_owned(), series(self.count, self.last));
        }
        Write {
            collection: self.collection.clone(),
            object,
            kind: WriteKind::Series,
        }
    }
}

#[cfg(test)]
#[path = "tests/series.rs"]
mod tests;
