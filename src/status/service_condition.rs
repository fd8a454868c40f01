//! Condition of a Service or a service port in its rules.

use std::fmt;

use super::family_requests::FamilyService;
use crate::model::Allowance;
use crate::render::Disposition;

/// Condition of a Service or a service port in its rules, as far as the source shows it. Of
/// several, a later one is reported: it is the worse one, or the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServiceCondition {
    Ok,
    /// The last changes are not in the rules yet.
    Pending,
    /// Rules that cannot be read, or were not, may be of the service port.
    Unknown,
    /// Packets to a frontend are dropped: policy Local, and no endpoint on this node.
    NoLocalEndpoint,
    /// A jump or a rule between a frontend and the endpoints is missing.
    NoPath,
    /// Another Service has a frontend that it claims.
    Conflict,
    /// Packets to a frontend are rejected.
    NoEndpoints,
    /// Lacks rules because of a limit.
    OverLimit,
    /// The rules make restores fail, so that changes are not applied.
    Quarantined,
}

impl ServiceCondition {
    /// Returns the condition as `deltaproxy services` and the pages name it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Pending => "pending",
            Self::Unknown => "unknown",
            Self::NoLocalEndpoint => "no local endpoint",
            Self::NoPath => "no path",
            Self::Conflict => "conflict",
            Self::NoEndpoints => "no endpoints",
            Self::OverLimit => "over limit",
            Self::Quarantined => "quarantined",
        }
    }

    /// Returns the condition of a Service in one family.
    pub(super) fn of(service: &FamilyService) -> Self {
        let summary = &service.summary;
        let ports = summary.ports.first.iter();
        let frontends = ports.flat_map(|port| &port.frontends.first);
        let has = |disposition| frontends.clone().any(|one| one.disposition == disposition);
        if summary.allowance != Allowance::Full || summary.ports_over_limit > 0 {
            Self::OverLimit
        } else if has(None) {
            Self::Conflict
        } else if has(Some(Disposition::Reject)) {
            Self::NoEndpoints
        } else if has(Some(Disposition::Drop)) {
            Self::NoLocalEndpoint
        } else if service.is_pending {
            Self::Pending
        } else {
            Self::Ok
        }
    }
}

impl fmt::Display for ServiceCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
