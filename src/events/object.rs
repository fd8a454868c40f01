//! An event as an object of `events.k8s.io/v1`.
//!
//! Apart, and pure, because this is the API's contract.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/events/event_recorder.go, `makeEvent` (v1.36)

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Event;

/// The controller that events are from: what watches kube-proxy's finds ours.
const CONTROLLER: &str = "kube-proxy";

/// Bytes of a note; the server refuses longer ones.
const LONGEST_NOTE: usize = 1024;

/// Who says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// This node's name, which events are about if about no Service.
    pub node_name: String,
    /// The machine's own name.
    pub host_name: String,
}

/// The folder of the API where an event is kept.
pub(super) fn collection(event: &Event) -> String {
    format!(
        "/apis/events.k8s.io/v1/namespaces/{}/events",
        namespace(event)
    )
}

/// The object, new.
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

/// How often it has happened by now, and when last.
pub(super) fn series(count: u32, last: SystemTime) -> Value {
    json!({"count": count, "lastObservedTime": micro_time(last)})
}

/// Events about Nodes, which are in no namespace, are in this one.
fn namespace(event: &Event) -> &str {
    event
        .service()
        .map_or("default", |service| service.namespace())
}

/// RFC 3339 with six decimals, always.
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
