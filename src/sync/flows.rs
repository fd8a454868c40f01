//! Deletes stale conntrack entries of UDP after syncs.
//!
//! The thread of its own is for millions of entries, which the kernel takes seconds to walk
//! through: neither syncs nor servers wait for that.
//!
//! # Invariants
//!
//! - Requests that failed are kept and merged with later ones.
//! - Only a sync that was applied makes a request.
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

use super::pacer::retry_after;
use super::syncer::Clock;
use crate::conntrack::{Flow, StaleCandidates};
use crate::host::{FlowError, FlowTable, local_addresses};
use crate::net::{IpFamily, PerFamily};
use crate::render::NodePortAddresses;
use crate::telemetry::SyncMetrics;

/// Longest retry delay.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Longest pause between two sweeps: a client of a deleted endpoint waits a second at most.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// Request of a sync.
#[derive(Debug)]
struct News {
    family: IpFamily,
    candidates: StaleCandidates,
    node_ports: NodePortAddresses,
}

/// Sender of requests. The thread ends when all clones are dropped; the first sync of the next
/// process finds the entries that are left.
#[derive(Debug, Clone)]
pub struct FlowSweeper(Sender<News>);

impl FlowSweeper {
    /// Starts the thread.
    pub fn start<T: FlowTable + Send + 'static>(
        table: T,
        metrics: SyncMetrics,
        clock: Clock,
    ) -> io::Result<Self> {
        let (sender, news) = channel();
        let follower = Follower {
            table,
            metrics,
            clock,
            news,
            pending: PerFamily::from_fn(|_| Pending::default()),
            failures: 0,
            is_unavailable: false,
        };
        let thread = thread::Builder::new().name("conntrack".to_owned());
        thread.spawn(|| follower.run())?;
        Ok(Self(sender))
    }

    /// Requests the check of these candidates; NodePorts answer on these addresses.
    pub fn tell(
        &self,
        family: IpFamily,
        candidates: StaleCandidates,
        node_ports: &NodePortAddresses,
    ) {
        if candidates.is_unchanged() {
            return;
        }
        // The thread ends after us, unless it panicked: then the process has ended, too.
        let _ = self.0.send(News {
            family,
            candidates,
            node_ports: node_ports.clone(),
        });
    }
}

/// Requests of one family.
#[derive(Debug)]
struct Pending {
    candidates: StaleCandidates,
    node_ports: NodePortAddresses,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            candidates: StaleCandidates::default(),
            node_ports: NodePortAddresses::All,
        }
    }
}

/// State of the thread.
struct Follower<T> {
    table: T,
    metrics: SyncMetrics,
    clock: Clock,
    news: Receiver<News>,
    pending: PerFamily<Pending>,
    /// Sweeps in a row that failed.
    failures: u32,
    /// The log says already that conntrack is not available.
    is_unavailable: bool,
}

impl<T: FlowTable> Follower<T> {
    fn run(mut self) {
        let mut not_before = (self.clock)();
        while self.has_work(not_before) {
            let began = (self.clock)();
            let results = IpFamily::ALL.map(|family| self.sweep(family));
            let ended = (self.clock)();
            let wait = if results.iter().any(Result::is_err) {
                self.failures = self.failures.saturating_add(1);
                retry_after(self.failures, LONGEST_PAUSE)
            } else {
                self.failures = 0;
                rest(ended.saturating_duration_since(began))
            };
            not_before = ended + wait;
        }
    }

    /// Waits for a request, and then until `not_before`, and takes further requests meanwhile.
    /// Returns `false` if there will be none.
    fn has_work(&mut self, not_before: Instant) -> bool {
        let has_some = |pending: &Pending| !pending.candidates.is_empty();
        while !has_some(&self.pending.v4) && !has_some(&self.pending.v6) {
            match self.news.recv() {
                Ok(news) => note(&mut self.pending, news),
                Err(_) => return false,
            }
        }
        loop {
            let left = not_before.saturating_duration_since((self.clock)());
            match self.news.recv_timeout(left) {
                Ok(news) => note(&mut self.pending, news),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Deletes the stale entries of a family. After an error some may be left.
    fn sweep(&mut self, family: IpFamily) -> Result<(), FlowError> {
        let pending = self.pending.get_mut(family);
        if pending.candidates.is_empty() {
            return Ok(());
        }
        let node_ports = pending.node_ports.clone();
        let mut candidates = std::mem::take(&mut pending.candidates);
        let destinations = candidates.len();
        let started = (self.clock)();
        let machine = match machine_addresses(&candidates, &node_ports) {
            Ok(machine) => machine,
            Err(cause) => return self.judge(family, candidates, Err(cause)),
        };
        let has_node_ports = |ip: IpAddr| match &node_ports {
            NodePortAddresses::All => ip.is_loopback() || machine.contains(&ip),
            NodePortAddresses::Only(addresses) => addresses.binary_search(&ip).is_ok(),
        };
        let filters = candidates.filters();
        let (news, pending) = (&self.news, &mut self.pending);
        let mut is_stale = |flow: &Flow| {
            while let Ok(news) = news.try_recv() {
                if news.family == family {
                    candidates.update(&news.candidates);
                }
                note(pending, news);
            }
            candidates.is_stale(flow, has_node_ports)
        };
        let (deleted, result) = self.table.sweep(family, &filters, &mut is_stale);
        let took = (self.clock)().saturating_duration_since(started);
        if result.is_ok() || deleted > 0 {
            self.metrics.conntrack_cleaned(family, took, deleted);
            debug!(%family, destinations, deleted, ?took, "looked for stale UDP flows");
        }
        self.judge(family, candidates, result)
    }

    /// Keeps the candidates of a sweep that failed, unless it would always fail.
    fn judge(
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
                    "UDP clients of endpoints that are gone stay with them until they pause; \
                     allow CAP_NET_ADMIN, and load nf_conntrack_netlink"
                );
                return Ok(());
            }
            Err(cause) => {
                let pending = &mut self.pending.get_mut(family).candidates;
                candidates.merge(std::mem::take(pending));
                *pending = candidates;
                let pause = retry_after(self.failures.saturating_add(1), LONGEST_PAUSE);
                if self.failures == 0 {
                    warn!(%family, %cause, "trying again in {pause:?}");
                } else {
                    debug!(%family, %cause, "trying again in {pause:?}");
                }
            }
        }
        result
    }
}

fn note(pending: &mut PerFamily<Pending>, news: News) {
    let pending = pending.get_mut(news.family);
    pending.candidates.merge(news.candidates);
    pending.node_ports = news.node_ports;
}

/// Returns the pause after a sweep that took this long: sweeps take at most a fifth of one CPU,
/// unless clients would wait longer than [`LONGEST_REST`].
fn rest(took: Duration) -> Duration {
    took.saturating_mul(4).min(LONGEST_REST)
}

/// Returns the addresses of the node, if any candidate depends on them.
fn machine_addresses(
    candidates: &StaleCandidates,
    node_ports: &NodePortAddresses,
) -> Result<BTreeSet<IpAddr>, FlowError> {
    if !candidates.has_node_ports() || *node_ports != NodePortAddresses::All {
        return Ok(BTreeSet::new());
    }
    local_addresses().map_err(|cause| FlowError::Incomplete(cause.try_into().unwrap_or(Errno::EIO)))
}

#[cfg(test)]
#[path = "tests/flows.rs"]
mod tests;
