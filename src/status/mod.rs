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

pub(crate) use document::{
    ConntrackStatus, DriftRecord, FailureRecord, FamilyStatus, LimitRecord, Problem,
    QuarantinedService, StatusDocument, SyncRecord, Verification, WatchStatus,
};
pub(crate) use family_log::FamilyLog;
pub(crate) use pages::StatusPages;
pub(crate) use rules_page::{HEAD, RulesHead, RulesPage, RulesRequest};
