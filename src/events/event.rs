//! The things that are worth an event.
//!
//! Apart, and pure, because their words are kube-proxy's, and alerts match them.
//!
//! # Source
//!
//! Upstream: cmd/kube-proxy/app/server.go, `Run`, `birthCry`;
//! pkg/proxy/healthcheck/service_health.go, `SyncServices` (v1.36)

use crate::model::ServiceName;

/// Something that happened. The texts say what exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The process begins.
    Starting,
    /// `/healthz` cannot be served, and that is the end.
    HealthNotServed(String),
    /// `/metrics` cannot be served, and that is the end.
    MetricsNotServed(String),
    /// The health-check node port of a Service cannot be served yet.
    CheckNotServed(ServiceName, String),
    /// The rules of a Service make restores fail; its changes are not applied.
    ///
    /// Differs from upstream: there all restores fail because of it.
    ServiceQuarantined(ServiceName, String),
    /// The configuration file says what cannot be used; the process goes on with what it said
    /// before.
    ///
    /// Differs from upstream: it has none such, and ends.
    ConfigurationRefused(String),
    /// Another program changes the same rules again and again, so that their repairs wait.
    ///
    /// Differs from upstream: there such rules stay changed until a sync happens to write them.
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

    /// The Service it is about; `None`: this Node.
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
