//! Kinds of Events, with reasons and actions as kube-proxy has them: alerts match them.
//!
//! # Source
//!
//! Upstream: cmd/kube-proxy/app/server.go, `Run`, `birthCry`;
//! pkg/proxy/healthcheck/service_health.go, `SyncServices` (v1.36)

use crate::model::ServiceName;

/// Event; the texts are its note.
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
    /// Another program changes the same rules again and again, so that their repairs wait.
    ///
    /// Differs from upstream: kube-proxy repairs such rules only when a sync writes them.
    RulesContested(String),
}

impl Event {
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::HealthNotServed(_) => "FailedToStartProxierHealthcheck",
            Self::MetricsNotServed(_) => "FailedToStartMetricServer",
            Self::CheckNotServed(..) => "FailedToStartServiceHealthcheck",
            Self::ServiceQuarantined(..) => "ServiceQuarantined",
            Self::ConfigurationRefused(_) => "ConfigurationRefused",
            Self::RulesContested(_) => "RulesContested",
        }
    }

    pub(super) const fn severity(&self) -> &'static str {
        match self {
            Self::Starting => "Normal",
            Self::HealthNotServed(_)
            | Self::MetricsNotServed(_)
            | Self::CheckNotServed(..)
            | Self::ServiceQuarantined(..)
            | Self::ConfigurationRefused(_)
            | Self::RulesContested(_) => "Warning",
        }
    }

    pub(super) const fn action(&self) -> &'static str {
        match self {
            Self::Starting | Self::HealthNotServed(_) | Self::MetricsNotServed(_) => {
                "StartKubeProxy"
            }
            Self::CheckNotServed(..) => "Listen",
            Self::ServiceQuarantined(..) | Self::RulesContested(_) => "Restore",
            Self::ConfigurationRefused(_) => "Configure",
        }
    }

    /// Returns the Service that the Event regards; `None`: this Node.
    pub(super) const fn service(&self) -> Option<&ServiceName> {
        match self {
            Self::Starting
            | Self::HealthNotServed(_)
            | Self::MetricsNotServed(_)
            | Self::ConfigurationRefused(_)
            | Self::RulesContested(_) => None,
            Self::CheckNotServed(service, _) | Self::ServiceQuarantined(service, _) => {
                Some(service)
            }
        }
    }

    pub(super) fn note(&self) -> &str {
        match self {
            Self::Starting => "",
            Self::HealthNotServed(note)
            | Self::MetricsNotServed(note)
            | Self::CheckNotServed(_, note)
            | Self::ServiceQuarantined(_, note)
            | Self::ConfigurationRefused(note)
            | Self::RulesContested(note) => note,
        }
    }
}
