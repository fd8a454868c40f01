//! Records of past syncs in the folder of `--state-dir`: their causes, payloads and results; and
//! checkpoints of all rules, from which those of a moment can be rebuilt.
//!
//! A thread writes them, so that no sync waits for a disk. The folder can be read on the node or
//! elsewhere.

mod folder;
#[cfg(feature = "tools")]
mod past;
mod record;
#[cfg(test)]
mod tests;
mod writer;

#[cfg(feature = "tools")]
pub(crate) use folder::{HistoryEntry, HistoryFiles, read_checkpoint};
#[cfg(feature = "tools")]
pub(crate) use past::{PastRules, rules_at};
pub(crate) use record::{HistoryRecord, MAX_PAYLOAD, MAX_SERVICES};
#[cfg(feature = "tools")]
pub(crate) use writer::FAILED_PAYLOADS;
#[cfg(test)]
pub(crate) use writer::HistoryThread;
pub(crate) use writer::{HistoryLog, HistoryWriter};
