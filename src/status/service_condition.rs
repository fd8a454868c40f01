//! Condition of a Service in its rules.

use super::family_requests::FamilyService;
use crate::model::Allowance;
use crate::render::Disposition;

/// Condition of a Service in its rules, the worst one last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServiceCondition {
    Ok,
    /// The last changes are not in the rules yet.
    Pending,
    /// Packets to a frontend are dropped: policy Local, and no endpoint on this node.
    NoLocalEndpoint,
    /// Packets to a frontend are rejected.
    NoEndpoints,
    /// Another Service has a frontend that it claims.
    Conflict,
    /// Lacks rules because of a limit.
    OverLimit,
    /// The rules make restores fail.
    Quarantined,
}

impl ServiceCondition {
    /// Returns the condition as `deltaproxy services` names it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Pending => "pending",
            Self::NoLocalEndpoint => "no local endpoint",
            Self::NoEndpoints => "no endpoints",
            Self::Conflict => "conflict",
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
