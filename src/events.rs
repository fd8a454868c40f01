//! Events, as `kubectl get events` shows them, with reasons and actions as kube-proxy has them,
//! because alerts match them.
//!
//! They are written to the API server by a task of its own, one after the other: the server may be
//! slow, not available, or reject them, and no other part of the process waits for it. Recording
//! never blocks: an Event that finds the queue full is dropped and counted.
//!
//! # Source
//!
//! Upstream: cmd/kube-proxy/app/server.go, `Run`, `birthCry`;
//! pkg/proxy/healthcheck/service_health.go, `SyncServices`;
//! k8s.io/client-go/tools/events/event_recorder.go, `makeEvent`;
//! k8s.io/client-go/tools/events/event_broadcaster.go (v1.37)
//!
//! Differs from upstream: Events wait behind one that cannot be written, so that a server that is
//! not available gets one attempt at a time. kube-proxy writes each Event on its own. An Event of
//! the same reason and Service is not written again for half an hour; kube-proxy counts repeated
//! ones in a series.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as EventObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Resource;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tracing::warn;

use crate::model::ServiceName;
use crate::watch::api::{self, ApiClient, ApiError};

/// Event; the text of a variant is its note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
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
struct EventFields<'e> {
    reason: &'static str,
    action: &'static str,
    severity: &'static str,
    /// Service that the Event regards; `None`: this Node.
    service: Option<&'e ServiceName>,
    note: &'e str,
}

impl Event {
    fn fields(&self) -> EventFields<'_> {
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
    pub host_name: String,
}

/// Returns a new object.
fn object(event: &Event, origin: &Origin, at: SystemTime) -> EventObject {
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

fn micro_time(at: SystemTime) -> MicroTime {
    MicroTime(Timestamp::try_from(at).unwrap_or_default())
}

fn shortened(note: &str) -> &str {
    let fits = |at: &usize| *at <= LONGEST_NOTE && note.is_char_boundary(*at);
    let end = (0..=note.len()).rev().find(fits).unwrap_or_default();
    note.get(..end).unwrap_or_default()
}

/// Maximum Events that wait while the server does not answer. Only a node with hundreds of health
/// check ports in use has more at once.
const LONGEST_QUEUE: usize = 256;

/// Entry of the queue.
#[derive(Debug)]
enum QueueEntry {
    /// Event, with its time.
    Happened(Event, SystemTime),
    /// Request to report when all entries before are written.
    Flush(oneshot::Sender<()>),
}

/// Takes Events. Clones share one queue.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(Option<Queue>);

#[derive(Debug, Clone)]
struct Queue {
    entries: mpsc::Sender<QueueEntry>,
    dropped: Arc<AtomicUsize>,
}

impl Recorder {
    /// Returns a recorder with the other end of its queue and the number of dropped Events.
    fn with_queue() -> (Self, mpsc::Receiver<QueueEntry>, Arc<AtomicUsize>) {
        let (entries, waiting) = mpsc::channel(LONGEST_QUEUE);
        let dropped = Arc::default();
        let queue = Queue {
            entries,
            dropped: Arc::clone(&dropped),
        };
        (Self(Some(queue)), waiting, dropped)
    }

    /// Returns a recorder that drops all Events, for dry runs and without an API server.
    pub(crate) const fn disabled() -> Self {
        Self(None)
    }

    /// Adds an Event. Never blocks.
    #[expect(
        clippy::disallowed_methods,
        reason = "an Event holds the time at which it happened"
    )]
    pub(crate) fn record(&self, event: Event) {
        if let Some(queue) = &self.0 {
            let entry = QueueEntry::Happened(event, SystemTime::now());
            if queue.entries.try_send(entry).is_err() {
                queue.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until all Events so far are written or dropped, for the end of the process; callers
    /// set a timeout.
    pub(crate) async fn flush(&self) {
        if let Some(queue) = &self.0 {
            let (done, is_done) = oneshot::channel();
            if queue.entries.send(QueueEntry::Flush(done)).await.is_ok() {
                // An error means that the writer is gone, and nothing will be written.
                let _ = is_done.await;
            }
        }
    }
}

/// Maximum attempts for one Event, as in client-go.
const TRIES: u32 = 12;

/// Wait between two attempts, with up to a quarter of jitter, as in client-go.
const PAUSE: Duration = Duration::from_secs(10);

/// Time in which an Event of the same reason and Service is not written again: the server deletes
/// Events after an hour.
const REPEAT_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// Maximum Events that are remembered; further ones are written.
const MAX_WRITTEN: usize = 1000;

const TOO_MANY_REQUESTS: u16 = 429;

/// Writes the Events of a [`Recorder`].
#[derive(Debug)]
pub(crate) struct Writer {
    waiting: mpsc::Receiver<QueueEntry>,
    dropped: Arc<AtomicUsize>,
    origin: Origin,
    /// Time of the last Event of each reason and Service.
    written: BTreeMap<(&'static str, Option<ServiceName>), SystemTime>,
}

/// Returns a recorder and the writer of its Events.
pub(crate) fn recorder(origin: Origin) -> (Recorder, Writer) {
    let (recorder, waiting, dropped) = Recorder::with_queue();
    let writer = Writer {
        waiting,
        dropped,
        origin,
        written: BTreeMap::new(),
    };
    (recorder, writer)
}

impl Writer {
    /// Writes to this server; never returns.
    pub(crate) async fn run(mut self, server: &ApiClient) -> Infallible {
        loop {
            match self.waiting.recv().await {
                Some(QueueEntry::Happened(event, at)) => {
                    if self.is_due(&event, at) {
                        self.write(server, &object(&event, &self.origin, at)).await;
                    }
                }
                // The receiver may have timed out.
                Some(QueueEntry::Flush(done)) => drop(done.send(())),
                None => std::future::pending().await,
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                warn!(
                    dropped,
                    "dropped events, because the queue of events to write was full"
                );
            }
        }
    }

    /// Reports whether an Event is not a repetition, and remembers it.
    fn is_due(&mut self, event: &Event, at: SystemTime) -> bool {
        let is_recent = |then: &SystemTime| {
            at.duration_since(*then)
                .is_ok_and(|age| age < REPEAT_INTERVAL)
        };
        let fields = event.fields();
        let key = (fields.reason, fields.service.cloned());
        if self.written.get(&key).is_some_and(is_recent) {
            return false;
        }
        self.written.retain(|_, then| is_recent(then));
        if self.written.len() < MAX_WRITTEN {
            self.written.insert(key, at);
        }
        true
    }

    /// Writes an Event, with retries for some minutes.
    async fn write(&self, server: &ApiClient, object: &EventObject) {
        let path = EventObject::url_path(&(), object.metadata.namespace.as_deref());
        for attempt in 1..=TRIES {
            let Err(error) = api::send_object(server, &path, object).await else {
                return;
            };
            let cause = error.in_full();
            warn!(
                server = server.address(),
                error = cause,
                "cannot write an event"
            );
            if is_final(&error) || attempt == TRIES {
                return;
            }
            let pause = PAUSE.mul_f64(1.0 + fastrand::f64() / 4.0);
            sleep(pause.max(error.retry_after())).await;
        }
    }
}

/// Reports whether another attempt would fail in the same way.
fn is_final(error: &ApiError) -> bool {
    let is_final = |code: u16| code < 500 && code != TOO_MANY_REQUESTS;
    error.status().is_some_and(is_final)
}

#[cfg(test)]
#[path = "tests/events/object.rs"]
mod object_tests;

#[cfg(test)]
#[path = "tests/events/queue.rs"]
mod queue_tests;
