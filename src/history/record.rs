//! Record of one attempt of a sync: a line of JSON.
//!
//! Fields are an interface: a folder may be read by another version, so each field has a default,
//! and unknown ones are ignored.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::status::DriftRecord;

/// Maximum names of Services in a record.
pub(crate) const MAX_SERVICES: usize = 100;

/// Maximum bytes of a payload in a record. A partial payload has a few kilobytes.
pub(crate) const MAX_PAYLOAD: usize = 256 << 10;

/// Scope of the record of a checkpoint that failed.
pub(crate) const CHECKPOINT_SCOPE: &str = "checkpoint";

/// Attempt of a sync that wrote rules or failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HistoryRecord {
    /// Its end.
    pub at: Timestamp,
    /// Start of the process, in milliseconds since 1970.
    pub process: u64,
    /// Number among the records of this process and family, from 1: a missing one is a lost record,
    /// or stands for restores that are not recorded.
    pub number: u64,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// `full`, `partial` or `adoption`; `checkpoint` for one that failed.
    pub scope: String,
    /// Reason of a full sync, as in logs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub took_ms: f64,
    /// Size of the payload.
    pub bytes: u64,
    pub chains: u64,
    /// Services whose changes it applied, or that wait for it if it failed, sorted; at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Number of all such Services.
    pub service_count: u64,
    /// Error, as in logs; empty if it was applied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Changes by other programs that were found since the record before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<DriftRecord>,
    /// Input of `iptables-restore`; empty for a full sync, which writes all rules.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub payload: String,
    /// The end of the payload is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_truncated: bool,
}
