//! Records of past syncs in the folder of `--state-dir`: their causes, payloads and results.
//!
//! A thread writes them, so that no sync waits for a disk. The folder can be read on the node or
//! elsewhere.

mod folder;
mod record;
#[cfg(test)]
mod tests;
mod writer;

#[cfg(feature = "tools")]
pub(crate) use folder::HistoryFiles;
pub(crate) use record::{HistoryRecord, MAX_PAYLOAD, MAX_SERVICES};
pub(crate) use writer::{HistoryLog, HistoryWriter};
