//! Deletes stale conntrack entries of UDP after syncs, in a thread of its own.
//!
//! A sweep walks through all conntrack entries of an IP family, and deletes the stale ones of its
//! candidates. These are destinations, such as a cluster IP and port, whose entries a sync may have
//! made stale. With millions of entries that takes seconds: neither syncs nor health checks wait
//! for it.
//!
//! # Invariants
//!
//! - The candidates of a failed sweep are kept and merged with those of later syncs, until a sweep
//!   succeeds or conntrack is found to be unavailable.
//! - A sweep is requested only after a sync that applied rules.
//!
//! Differs from upstream: kube-proxy deletes entries at the end of a sync, and forgets those of a
//! deletion that failed.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use tracing::{debug, warn};

use crate::conntrack::{Flow, StaleCandidates, SweepRequest};
use crate::host::{FlowError, FlowTable, local_addresses};
use crate::net::{DoublingDelay, IpFamily, PerFamily};
use crate::render::NodePortAddresses;
use crate::sync::Clock;
use crate::telemetry::SyncMetrics;

/// Delay after sweeps that failed.
const RETRY_DELAY: DoublingDelay = DoublingDelay::of_retries(Duration::from_secs(60));
/// Maximum pause after a sweep that succeeded. A client of a deleted endpoint waits for it and for
/// the next sweep.
const LONGEST_PAUSE_AFTER_SWEEP: Duration = Duration::from_millis(500);

/// Starts the thread, which ends when all senders are dropped. The first sync of the next process
/// asks for a sweep of all Services, which finds the entries that are left.
///
/// # Errors
///
/// The system cannot start a thread.
pub(super) fn start<T: FlowTable + Send + 'static>(
    table: T,
    metrics: SyncMetrics,
    clock: Clock,
) -> io::Result<Sender<SweepRequest>> {
    let (sender, requests) = channel();
    let sweeper = SweeperThread {
        table,
        metrics,
        clock,
        requests,
        pending: PerFamily::from_fn(|_| PendingSweep::default()),
        failures: 0,
        is_unavailable: false,
    };
    let thread = thread::Builder::new().name("conntrack".to_owned());
    thread.spawn(|| sweeper.run())?;
    Ok(sender)
}

/// Merged requests of one IP family.
#[derive(Debug)]
struct PendingSweep {
    candidates: StaleCandidates,
    node_port_addresses: NodePortAddresses,
}

impl Default for PendingSweep {
    fn default() -> Self {
        Self {
            candidates: StaleCandidates::default(),
            node_port_addresses: NodePortAddresses::All,
        }
    }
}

struct SweeperThread<T> {
    table: T,
    metrics: SyncMetrics,
    clock: Clock,
    requests: Receiver<SweepRequest>,
    pending: PerFamily<PendingSweep>,
    /// Number of sweeps in a row that failed.
    failures: u32,
    /// Conntrack is unavailable, which has been logged.
    is_unavailable: bool,
}

impl<T: FlowTable> SweeperThread<T> {
    fn run(mut self) {
        let mut not_before = (self.clock)();
        while self.has_work(not_before) {
            let began = (self.clock)();
            let results = IpFamily::ALL.map(|family| self.sweep(family));
            let ended = (self.clock)();
            let wait = if results.iter().any(Result::is_err) {
                self.failures = self.failures.saturating_add(1);
                RETRY_DELAY.after(self.failures)
            } else {
                self.failures = 0;
                pause_after(ended.saturating_duration_since(began))
            };
            not_before = ended + wait;
        }
    }

    /// Waits until there are candidates and `not_before` is reached, and merges all requests
    /// meanwhile. Returns `false` when all senders are gone.
    fn has_work(&mut self, not_before: Instant) -> bool {
        let has_some = |pending: &PendingSweep| !pending.candidates.is_empty();
        while !has_some(&self.pending.v4) && !has_some(&self.pending.v6) {
            match self.requests.recv() {
                Ok(request) => merge_request(&mut self.pending, request),
                Err(_) => return false,
            }
        }
        loop {
            let left = not_before.saturating_duration_since((self.clock)());
            match self.requests.recv_timeout(left) {
                Ok(request) => merge_request(&mut self.pending, request),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Deletes the stale entries of a family. After an error, some may be left.
    fn sweep(&mut self, family: IpFamily) -> Result<(), FlowError> {
        let pending = self.pending.get_mut(family);
        if pending.candidates.is_empty() {
            return Ok(());
        }
        let node_port_addresses = pending.node_port_addresses.clone();
        let mut candidates = std::mem::take(&mut pending.candidates);
        let destinations = candidates.len();
        let started = (self.clock)();
        let node_addresses = match needed_node_addresses(&candidates, &node_port_addresses) {
            Ok(node_addresses) => node_addresses,
            Err(cause) => return self.handle_result(family, candidates, Err(cause)),
        };
        let accepts_node_ports = |ip: IpAddr| match &node_port_addresses {
            NodePortAddresses::All => ip.is_loopback() || node_addresses.contains(&ip),
            NodePortAddresses::Only(addresses) => addresses.binary_search(&ip).is_ok(),
        };
        let filters = candidates.filters();
        let (requests, pending) = (&self.requests, &mut self.pending);
        let mut is_stale = |flow: &Flow| {
            while let Ok(request) = requests.try_recv() {
                // Entries may have become valid again: this sweep must not delete them. New
                // candidates are for the next sweep.
                if request.family == family {
                    candidates.update(&request.candidates);
                }
                merge_request(pending, request);
            }
            candidates.is_stale(flow, accepts_node_ports)
        };
        let (deleted, result) = self.table.sweep(family, &filters, &mut is_stale);
        let took = (self.clock)().saturating_duration_since(started);
        if result.is_ok() || deleted > 0 {
            self.metrics.conntrack_cleaned(family, took, deleted);
            debug!(%family, destinations, deleted, ?took, "stale UDP conntrack entries deleted");
        }
        self.handle_result(family, candidates, result)
    }

    /// Keeps the candidates of a failed sweep, unless conntrack is unavailable.
    fn handle_result(
        &mut self,
        family: IpFamily,
        mut candidates: StaleCandidates,
        result: Result<(), FlowError>,
    ) -> Result<(), FlowError> {
        match result {
            Ok(()) => self.is_unavailable = false,
            Err(FlowError::Unavailable(_)) if self.is_unavailable => return Ok(()),
            Err(cause @ FlowError::Unavailable(_)) => {
                self.is_unavailable = true;
                warn!(
                    %family, %cause,
                    "cannot delete stale conntrack entries: UDP clients of removed endpoints keep \
                     sending to them until they pause; grant CAP_NET_ADMIN and load \
                     nf_conntrack_netlink"
                );
                return Ok(());
            }
            Err(cause) => {
                let pending = &mut self.pending.get_mut(family).candidates;
                candidates.merge(std::mem::take(pending));
                *pending = candidates;
                let pause = RETRY_DELAY.after(self.failures.saturating_add(1));
                warn!(
                    %family, %cause,
                    "deletion of stale conntrack entries failed: some UDP clients keep sending to \
                     removed endpoints; retrying in {pause:?}"
                );
            }
        }
        result
    }
}

fn merge_request(pending: &mut PerFamily<PendingSweep>, request: SweepRequest) {
    let pending = pending.get_mut(request.family);
    pending.candidates.merge(request.candidates);
    pending.node_port_addresses = request.node_port_addresses;
}

/// Returns the pause after a sweep of this duration: sweeps take at most a fifth of one CPU,
/// unless clients would wait longer than [`LONGEST_PAUSE_AFTER_SWEEP`].
fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(4).min(LONGEST_PAUSE_AFTER_SWEEP)
}

/// Returns the addresses of the node if any candidate depends on them; otherwise none.
fn needed_node_addresses(
    candidates: &StaleCandidates,
    node_port_addresses: &NodePortAddresses,
) -> Result<BTreeSet<IpAddr>, FlowError> {
    if !candidates.has_node_ports() || *node_port_addresses != NodePortAddresses::All {
        return Ok(BTreeSet::new());
    }
    local_addresses().map_err(|cause| FlowError::Incomplete(cause.try_into().unwrap_or(Errno::EIO)))
}

#[cfg(test)]
#[path = "tests/conntrack_sweeper.rs"]
mod tests;
