//! Events, with reasons and actions as kube-proxy has them, because alerts match them, and their
//! objects in `events.k8s.io/v1`.
//!
//! # Source
//!
//! Upstream: cmd/kube-proxy/app/server.go, `Run`, `birthCry`;
//! pkg/proxy/healthcheck/service_health.go, `SyncServices`;
//! k8s.io/client-go/tools/events/event_recorder.go, `makeEvent` (v1.37)

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as EventObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use crate::model::ServiceName;

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

fn micro_time(at: SystemTime) -> MicroTime {
    MicroTime(Timestamp::try_from(at).unwrap_or_default())
}

fn shortened(note: &str) -> &str {
    let fits = |at: &usize| *at <= LONGEST_NOTE && note.is_char_boundary(*at);
    let end = (0..=note.len()).rev().find(fits).unwrap_or_default();
    note.get(..end).unwrap_or_default()
}

#[cfg(test)]
#[path = "tests/event.rs"]
mod tests;
