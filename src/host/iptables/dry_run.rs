//! The implementation of [`Iptables`] that prints payloads instead of restoring them. The daemon
//! runs unchanged up to this last step.

use std::io::{ErrorKind, Write};

use tokio_util::sync::CancellationToken;

use super::super::netlink::nfacct;
use super::interface::{Iptables, ListedChains};
use super::outcome::{CounterError, RestoreError, Restored, RunError};
use crate::net::IpFamily;
use crate::rules::{Payload, Table};

/// Reads the kernel through `I`, if it may, and prints payloads on stdout.
#[derive(Debug, Clone)]
pub(crate) struct DryRun<I> {
    family: IpFamily,
    kernel: I,
    stop: CancellationToken,
}

impl<I> DryRun<I> {
    /// Prints the payloads of `family`; cancels `stop` when the reader of stdout exits.
    pub(crate) const fn new(family: IpFamily, kernel: I, stop: CancellationToken) -> Self {
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
    /// [`RestoreError::Failed`] if stdout cannot be written. A closed pipe is not an error: it ends
    /// the dry run.
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

    /// Treats a kernel that may not be read as empty: a dry run does not need root.
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

    /// Checks that the kernel supports counters, and creates none. Support of the match in rules is
    /// assumed: a check takes a restore.
    async fn make_counter(&self, name: &str) -> Result<(), CounterError> {
        let exists = nfacct::exists(name);
        exists.map(drop).map_err(|reason| CounterError::Kernel {
            name: name.to_owned(),
            reason,
        })
    }
}
