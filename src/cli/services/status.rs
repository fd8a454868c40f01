//! Status of a service port: whether its traffic reaches endpoints, and if not, why.

use std::fmt;

use crate::inspect::catalog::{FrontendDisposition, Policy, PortView};

/// Status of a service port, as far as the source shows it. Of several, a later one is reported: it
/// is the worse one, or the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PortStatus {
    Ok,
    /// Rules that cannot be read, or were not, may be of the service port.
    Unknown,
    /// A policy is Local, and no endpoint is on this node.
    NoLocalEndpoint,
    /// A jump or a rule between a frontend and the endpoints is missing.
    NoPath,
    /// Another Service has one of the frontends.
    Conflict,
    NoEndpoints,
    /// The Service exceeds a limit, so that it lacks rules.
    OverLimit,
    /// The Service makes restores fail, so that its changes are not applied.
    Quarantined,
}

impl PortStatus {
    /// Returns the status that the rules of one family show. `has_nat`: the nat table was read.
    pub(super) fn of(view: &PortView, has_nat: bool) -> Self {
        let mut frontends = view.frontends.iter();
        let is_local = |policy| policy == Some(Policy::Local);
        let has_local = view.endpoints.iter().any(|one| one.local.is_some());
        match () {
            () if frontends
                .clone()
                .any(|one| !one.unreachable_from.is_empty()) =>
            {
                Self::NoPath
            }
            () if !has_nat || view.unreadable_rules > 0 => Self::Unknown,
            () if frontends.any(|one| one.disposition == FrontendDisposition::Dropped) => {
                Self::NoLocalEndpoint
            }
            () if view.endpoints.is_empty() => Self::NoEndpoints,
            () if [view.internal_policy, view.external_policy]
                .into_iter()
                .any(is_local)
                && !has_local =>
            {
                Self::NoLocalEndpoint
            }
            () => Self::Ok,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::NoLocalEndpoint => "no local endpoint",
            Self::NoPath => "no path",
            Self::Conflict => "conflict",
            Self::NoEndpoints => "no endpoints",
            Self::OverLimit => "over limit",
            Self::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for PortStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
#[path = "tests/status.rs"]
mod tests;
