//! Prints what would be restored and restores nothing.
//!
//! Apart because it stands where the real programs stand: whatever the daemon would do, it does,
//! up to the last step.

use std::io::{ErrorKind, Write};

use tokio_util::sync::CancellationToken;

use super::{Iptables, ListedChains, NoCounter, RestoreError, Restored, RunError, nfacct};
use crate::net::IpFamily;
use crate::rules::{Payload, Table};

/// Reads the kernel through `I`, if that can, and prints payloads on stdout.
#[derive(Debug, Clone)]
pub struct DryRun<I> {
    family: IpFamily,
    kernel: I,
    stop: CancellationToken,
}

impl<I> DryRun<I> {
    /// Prints the payloads of `family`; `stop` is for when nobody reads them any more.
    pub const fn new(family: IpFamily, kernel: I, stop: CancellationToken) -> Self {
        Self {
            family,
            kernel,
            stop,
        }
    }
}

impl<I: Iptables> Iptables for DryRun<I> {
    /// # Errors
    ///
    /// [`RestoreError::Failed`] if stdout takes no more. A reader that left had enough: that is
    /// the end, and no error.
    async fn restore(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError> {
        let mut text = format!("# {} restore\n", self.family).into_bytes();
        while payload.write_next(&mut text) {}
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(&text).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.stop.cancel(),
            Err(error) => {
                return Err(RestoreError::Failed {
                    status: 1,
                    stderr: error.to_string(),
                });
            }
            Ok(()) => {}
        }
        Ok(Restored {
            payload_bytes: text.len() as u64,
            ..Restored::default()
        })
    }

    /// A kernel that may not be read counts as empty: a dry run needs no root.
    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        match self.kernel.save(table, each).await {
            Err(error @ RunError::Unprintable { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        self.kernel.list(table, chains).await
    }

    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError> {
        self.kernel.has(table, chain, rule).await
    }

    /// Only asks for the counter. If the kernel has it, or would make it, the match is taken for
    /// granted: finding out takes a restore.
    async fn make_counter(&self, name: &str) -> Result<(), NoCounter> {
        let asked = nfacct::is_there(name);
        asked.map(drop).map_err(|reason| NoCounter::Kernel {
            name: name.to_owned(),
            reason,
        })
    }
}
