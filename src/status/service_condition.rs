//! Condition of a Service or a service port in its rules.

use super::family_requests::FamilyService;
use crate::model::Allowance;
use crate::render::Disposition;

enum_of_words! {
    /// Condition of a Service or a service port in its rules, as far as the source shows it. Of
    /// several, a later one is reported: it is the worse one, or the cause.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum ServiceCondition {
        Ok = "ok",
        /// The last changes are not in the rules yet.
        Pending = "pending",
        /// Rules that cannot be read, or were not, may be of the service port.
        Unknown = "unknown",
        /// Packets to a frontend are dropped: policy Local, and no endpoint on this node.
        NoLocalEndpoint = "no local endpoint",
        /// A jump or a rule between a frontend and the endpoints is missing.
        NoPath = "no path",
        /// Another Service has a frontend that it claims.
        Conflict = "conflict",
        /// Packets to a frontend are rejected.
        NoEndpoints = "no endpoints",
        /// Lacks rules because of a limit.
        OverLimit = "over limit",
        /// The rules make restores fail, so that changes are not applied.
        Quarantined = "quarantined",
    }
}

impl ServiceCondition {
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
