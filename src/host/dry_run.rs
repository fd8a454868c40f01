//! Prints what would be restored and restores nothing.
//!
//! Apart because it stands where the real programs stand: whatever the daemon would do, it does,
//! up to the last step.

use std::io::Write;

use super::{Iptables, RestoreError, Restored, RunError};
use crate::net::IpFamily;
use crate::rules::{Payload, Table};

/// Reads the kernel through `I`, if that can, and prints payloads on stdout.
#[derive(Debug, Clone)]
pub struct DryRun<I> {
    family: IpFamily,
    kernel: I,
}

impl<I> DryRun<I> {
    /// Prints the payloads of `family`.
    pub const fn new(family: IpFamily, kernel: I) -> Self {
        Self { family, kernel }
    }
}

impl<I: Iptables> Iptables for DryRun<I> {
    /// # Errors
    ///
    /// [`RestoreError::Failed`] if nobody reads stdout any more.
    async fn restore(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError> {
        let mut text = format!("# {} restore\n", self.family).into_bytes();
        while payload.write_next(&mut text) {}
        let mut stdout = std::io::stdout().lock();
        let printed = stdout.write_all(&text).and_then(|()| stdout.flush());
        printed
            .map(|()| Restored {
                payload_bytes: text.len() as u64,
                ..Restored::default()
            })
            .map_err(|error| RestoreError::Failed {
                status: 1,
                stderr: error.to_string(),
            })
    }

    /// A kernel that may not be read counts as empty: a dry run needs no root.
    async fn save(&self, table: Table) -> Result<String, RunError> {
        Ok(self.kernel.save(table).await.unwrap_or_default())
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<Option<String>, RunError> {
        self.kernel.list(table, chains).await
    }
}
