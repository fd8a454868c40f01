//! Pages of the metrics port about the state of the node, and the documents on them, for operators
//! and for commands.
//!
//! Names and addresses of Services are for clients on the node alone, whatever address the port is
//! bound to.

mod document;
mod family_log;
mod pages;
mod problems;
mod rules_page;

#[cfg(test)]
pub(crate) use document::{ConntrackStatus, WatchStatus};
pub(crate) use document::{
    DriftRecord, FailureRecord, FamilyStatus, LimitRecord, Problem, QuarantinedService,
    StatusDocument, SyncRecord, Verification,
};
pub(crate) use family_log::FamilyLog;
pub(crate) use pages::StatusPages;
#[cfg(feature = "tools")]
pub(crate) use rules_page::{HEAD, RulesHead};
pub(crate) use rules_page::{RulesPage, RulesRequest};
