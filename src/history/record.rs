//! Record of one attempt of a sync, a line of JSON; and checkpoints: files with all recorded rules
//! of a family, to which payloads of later records are applied to rebuild the rules of a moment.
//!
//! Fields are an interface: a folder may be read by another version, so each field has a default,
//! and unknown ones are ignored.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::net::IpFamily;
use crate::status::{DriftRecord, HEAD, rules_title};

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

/// Maximum bytes of a checkpoint: those of both families and as many records have room in the
/// folder. 50,000 endpoints take about 3 MiB.
pub(super) const MAX_CHECKPOINT: usize = 4 << 20;

/// Second line of a checkpoint, after the one by which readers of dumps recognize the family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CheckpointHead {
    /// Time since which the kernel has these rules.
    pub at: Timestamp,
    /// Start of the process, as in records.
    pub process: u64,
    /// Number of the last record whose changes it has.
    pub number: u64,
}

impl CheckpointHead {
    /// Renders the file; `None` if it would have more than `max_bytes`. `write` writes the rules
    /// piece by piece into its argument.
    pub(super) fn render(
        &self,
        family: IpFamily,
        max_bytes: usize,
        write: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) -> Option<Vec<u8>> {
        // Nothing here can fail: keys are strings, and it is written into memory.
        let head = serde_json::to_string(self).unwrap_or_default();
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        let _ = writeln!(file, "{}", rules_title(family));
        let _ = writeln!(file, "{HEAD}{head}");
        write(&mut |piece| {
            if file.get_ref().len() <= max_bytes {
                let _ = file.write_all(piece);
            }
        });
        let bytes = file.finish().unwrap_or_default();
        (bytes.len() <= max_bytes).then_some(bytes)
    }

    /// Parses the second line.
    #[cfg(feature = "tools")]
    pub(super) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line.strip_prefix(HEAD)?).ok()
    }
}
