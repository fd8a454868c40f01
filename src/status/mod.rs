//! Pages of the metrics port about the state of the node, and the documents on them, for operators
//! and for commands.
//!
//! Names and addresses of Services are for clients on the node alone, whatever address the port is
//! bound to.

mod document;
mod family_requests;
mod html;
mod pages;
mod problems;
mod quantities;
mod rules_page;
mod rules_stream;
#[cfg(test)]
#[path = "tests/sample.rs"]
pub(crate) mod sample;
mod service_condition;
mod service_pages;
mod shadow;
mod summary;

#[cfg(test)]
pub(crate) use document::WatchStatus;
pub(crate) use document::{
    ConflictRecord, ConntrackStatus, DriftRecord, FailureRecord, FamilyLog, FamilyStatus,
    LimitRecord, Problem, QuarantinedService, StatusDocument, SyncRecord, UndetectedPods,
    Verification,
};
pub(crate) use family_requests::{
    FamilyRequest, FamilyRequests, FamilyService, ServiceDetail, ServiceRulesText, ServiceSearch,
    ServicesAsked,
};
pub(crate) use pages::StatusPages;
#[cfg(feature = "tools")]
pub(crate) use quantities::{age, bytes, milliseconds};
#[cfg(feature = "tools")]
pub(crate) use rules_page::RulesHead;
pub(crate) use rules_page::{HEAD, RulesPage, rules_title};
#[cfg(feature = "tools")]
pub(crate) use service_condition::ServiceCondition;
pub(crate) use service_pages::ServicePages;
pub(crate) use shadow::{
    LagHistogram, MOST_DIFFERENCES, ShadowDifference, ShadowDocument, ShadowFamily, ShadowKind,
    ShadowLog, ShadowPayloads, ShadowReadings,
};
pub(crate) use summary::RulesSummary;
