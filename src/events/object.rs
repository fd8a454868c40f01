//! Builds the objects of `events.k8s.io/v1`.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/events/event_recorder.go, `makeEvent` (v1.36)

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Event;

/// Reporting controller: a program that watches the Events of kube-proxy finds ours.
const CONTROLLER: &str = "kube-proxy";

/// Maximum length of a note in bytes; the server rejects longer ones.
const LONGEST_NOTE: usize = 1024;

/// Reporter of the Events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the Node, which Events without a Service regard.
    pub node_name: String,
    /// Host name.
    pub host_name: String,
}

/// Returns the path of the API for Events of a namespace.
pub(super) fn collection(event: &Event) -> String {
    format!(
        "/apis/events.k8s.io/v1/namespaces/{}/events",
        namespace(event)
    )
}

/// Returns a new object.
pub(super) fn object(event: &Event, origin: &Origin, at: SystemTime) -> Value {
    let (namespace, host) = (namespace(event), &origin.host_name);
    let (regarding, about) = match event.service() {
        None => {
            let node = &*origin.node_name;
            (
                json!({"apiVersion": "v1", "kind": "Node", "name": node}),
                node,
            )
        }
        Some(service) => {
            let name = service.name();
            (
                json!({"apiVersion": "v1", "kind": "Service", "namespace": namespace, "name": name}),
                name,
            )
        }
    };
    let nanos = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": format!("{about}.{nanos:x}")},
        "eventTime": micro_time(at),
        "reportingController": CONTROLLER,
        "reportingInstance": format!("{CONTROLLER}-{host}"),
        "action": event.action(),
        "reason": event.reason(),
        "regarding": regarding,
        "note": shortened(event.note()),
        "type": event.severity(),
    })
}

/// Returns the series of an object: its count and last time.
pub(super) fn series(count: u32, last: SystemTime) -> Value {
    json!({"count": count, "lastObservedTime": micro_time(last)})
}

/// Returns the namespace of an Event; `default` if it regards the Node.
fn namespace(event: &Event) -> &str {
    event
        .service()
        .map_or("default", |service| service.namespace())
}

/// Returns a time as RFC 3339 with six decimals.
fn micro_time(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).unwrap_or_default();
    format!("{at:.6}")
}

fn shortened(note: &str) -> &str {
    let fits = |at: &usize| *at <= LONGEST_NOTE && note.is_char_boundary(*at);
    let end = (0..=note.len()).rev().find(fits).unwrap_or_default();
    note.get(..end).unwrap_or_default()
}

#[cfg(test)]
#[path = "tests/object.rs"]
mod tests;
