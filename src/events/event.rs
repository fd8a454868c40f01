//! Events, with reasons and actions as kube-proxy has them, because alerts match them; their
//! objects in `events.k8s.io/v1`, and the series that combine repeated ones into one with a count.
//! The time is a parameter.
//!
//! # Invariants
//!
//! - An Event that is repeated while it is known is written a second time, and then at most once
//!   per refresh interval, however often it is repeated.
//! - An Event that is not repeated for some time is forgotten, after its last count was written.
//!
//! # Source
//!
//! Upstream: cmd/kube-proxy/app/server.go, `Run`, `birthCry`;
//! pkg/proxy/healthcheck/service_health.go, `SyncServices`;
//! k8s.io/client-go/tools/events/event_recorder.go, `makeEvent`; event_broadcaster.go,
//! `recordToSink`, `finishSeries`, `refreshExistingEventSeries` (v1.37)

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as EventObject, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use crate::model::ServiceName;

/// Event; the text of a variant is its note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The process starts.
    Starting,
    /// `/healthz` cannot be served, and the process ends.
    HealthNotServed(String),
    /// `/metrics` cannot be served, and the process ends.
    MetricsNotServed(String),
    /// The health check node port of a Service cannot be served; it is retried.
    CheckNotServed(ServiceName, String),
    /// The rules of a Service make restores fail; its changes are not applied.
    ///
    /// Differs from upstream: in kube-proxy one such Service makes all restores fail.
    ServiceQuarantined(ServiceName, String),
    /// The new configuration file is not valid; the process still runs with the previous one.
    ///
    /// Differs from upstream: kube-proxy ends.
    ConfigurationRefused(String),
    /// The configuration file was replaced by another valid one, which a restart would use.
    ///
    /// Differs from upstream: kube-proxy does not notice it.
    ConfigurationStale(String),
    /// Another program changes the same rules again and again, so that their repairs wait.
    ///
    /// Differs from upstream: kube-proxy repairs such rules only when a sync writes them.
    RulesContested(String),
    /// Another program flushed the rules, or changed most of them; all are restored.
    ///
    /// Differs from upstream, which logs it.
    RulesFlushed(String),
    /// Several syncs in a row failed: the rules in the kernel do not follow the cluster.
    ///
    /// Differs from upstream, which logs it.
    SyncFailed(String),
    /// A Service lacks rules because of a limit.
    ///
    /// Differs from upstream, which has no limits.
    ServiceOverLimit(ServiceName, String),
}

/// Fields of the object of an Event.
pub(super) struct EventFields<'e> {
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) severity: &'static str,
    /// Service that the Event regards; `None`: this Node.
    pub(super) service: Option<&'e ServiceName>,
    note: &'e str,
}

impl Event {
    pub(super) fn fields(&self) -> EventFields<'_> {
        let (reason, action, severity) = match self {
            Self::Starting => ("Starting", "StartKubeProxy", "Normal"),
            Self::HealthNotServed(_) => (
                "FailedToStartProxierHealthcheck",
                "StartKubeProxy",
                "Warning",
            ),
            Self::MetricsNotServed(_) => ("FailedToStartMetricServer", "StartKubeProxy", "Warning"),
            Self::CheckNotServed(..) => ("FailedToStartServiceHealthcheck", "Listen", "Warning"),
            Self::ServiceQuarantined(..) => ("ServiceQuarantined", "Restore", "Warning"),
            Self::ConfigurationRefused(_) => ("ConfigurationRefused", "Configure", "Warning"),
            Self::ConfigurationStale(_) => ("ConfigurationStale", "Configure", "Normal"),
            Self::RulesContested(_) => ("RulesContested", "Restore", "Warning"),
            Self::RulesFlushed(_) => ("RulesFlushed", "Restore", "Warning"),
            Self::SyncFailed(_) => ("SyncFailed", "Restore", "Warning"),
            Self::ServiceOverLimit(..) => ("ServiceOverLimit", "Render", "Warning"),
        };
        let (service, note) = match self {
            Self::Starting => (None, ""),
            Self::HealthNotServed(note)
            | Self::MetricsNotServed(note)
            | Self::ConfigurationRefused(note)
            | Self::ConfigurationStale(note)
            | Self::RulesContested(note)
            | Self::RulesFlushed(note)
            | Self::SyncFailed(note) => (None, &**note),
            Self::CheckNotServed(service, note)
            | Self::ServiceQuarantined(service, note)
            | Self::ServiceOverLimit(service, note) => (Some(service), &**note),
        };
        EventFields {
            reason,
            action,
            severity,
            service,
            note,
        }
    }
}

/// Reporting controller: a program that watches the Events of kube-proxy finds ours.
const CONTROLLER: &str = "kube-proxy";

/// Maximum length of a note in bytes; the server rejects longer ones.
const LONGEST_NOTE: usize = 1024;

/// Reporter of the Events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Name of the Node, which Events without a Service regard.
    pub node_name: String,
    /// Host name.
    pub host_name: String,
}

/// Returns a new object.
pub(super) fn object(event: &Event, origin: &Origin, at: SystemTime) -> EventObject {
    let event = event.fields();
    let (kind, name) = match event.service {
        None => ("Node", &*origin.node_name),
        Some(service) => ("Service", service.name()),
    };
    let namespace = event.service.map(ServiceName::namespace);
    let nanos = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    EventObject {
        metadata: ObjectMeta {
            namespace: Some(namespace.unwrap_or("default").to_owned()),
            name: Some(format!("{name}.{nanos:x}")),
            ..ObjectMeta::default()
        },
        event_time: Some(micro_time(at)),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(format!("{CONTROLLER}-{}", origin.host_name)),
        action: Some(event.action.to_owned()),
        reason: Some(event.reason.to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(kind.to_owned()),
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        }),
        note: Some(shortened(event.note).to_owned()),
        type_: Some(event.severity.to_owned()),
        ..EventObject::default()
    }
}

/// Returns the series of an object: its count and last time.
pub(super) fn series(count: i32, last: SystemTime) -> EventSeries {
    EventSeries {
        count,
        last_observed_time: micro_time(last),
    }
}

fn micro_time(at: SystemTime) -> MicroTime {
    MicroTime(Timestamp::try_from(at).unwrap_or_default())
}

fn shortened(note: &str) -> &str {
    let fits = |at: &usize| *at <= LONGEST_NOTE && note.is_char_boundary(*at);
    let end = (0..=note.len()).rev().find(fits).unwrap_or_default();
    note.get(..end).unwrap_or_default()
}

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
#[path = "tests/event.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/series.rs"]
mod series_tests;
