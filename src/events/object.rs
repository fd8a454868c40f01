//! Builds the objects of `events.k8s.io/v1`.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/events/event_recorder.go, `makeEvent` (v1.36)

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as EventObject, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::Event;
use crate::model::ServiceName;

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
    let (kind, name) = match event.service() {
        None => ("Node", &*origin.node_name),
        Some(service) => ("Service", service.name()),
    };
    let namespace = event.service().map(ServiceName::namespace);
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
        action: Some(event.action().to_owned()),
        reason: Some(event.reason().to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(kind.to_owned()),
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        }),
        note: Some(shortened(event.note()).to_owned()),
        type_: Some(event.severity().to_owned()),
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

#[cfg(test)]
#[path = "tests/object.rs"]
mod tests;
