//! Checkpoints: files with all recorded rules of a family, to which the payloads of later records
//! are applied to rebuild the rules of a moment.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::net::IpFamily;
use crate::status::{HEAD, rules_title};

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
