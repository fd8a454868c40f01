//! Follows syncs, and sweeps the UDP flows that they have left behind.
//!
//! Apart from the [`task`](super::task), and on a thread of its own, because a look through
//! millions of entries takes seconds in the kernel: neither syncs nor servers wait for it.
//!
//! # Invariants
//!
//! - What was told and could not be done yet is kept and done later, as what was told since has it.
//! - Only a sync that reached the kernel has anything to tell.
//!
//! Differs from upstream: there a sync ends with this, and what a failed one should have done is
//! forgotten.

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
use crate::conntrack::{Flow, Suspects};
use crate::host::{FlowError, FlowTable, local_addresses};
use crate::net::{IpFamily, PerFamily};
use crate::render::NodePortAddresses;
use crate::telemetry::SyncMetrics;

/// The longest wait after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A client whose endpoint is gone waits a second, not more.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// What a sync has to tell.
#[derive(Debug)]
struct News {
    family: IpFamily,
    suspects: Suspects,
    node_ports: NodePortAddresses,
}

/// Where syncs tell what they have left behind. The sweeping ends when all clones are gone; what is
/// left then is found by the first sync of the next process.
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

    /// The kernel has new rules: these flows have to be looked at. NodePorts answer on those
    /// addresses.
    pub fn tell(&self, family: IpFamily, suspects: Suspects, node_ports: &NodePortAddresses) {
        if suspects.is_silent() {
            return;
        }
        // The thread ends after us, unless it panicked: then the process has ended, too.
        let _ = self.0.send(News {
            family,
            suspects,
            node_ports: node_ports.clone(),
        });
    }
}

/// What is to be done in one family.
#[derive(Debug)]
struct Pending {
    suspects: Suspects,
    node_ports: NodePortAddresses,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            suspects: Suspects::default(),
            node_ports: NodePortAddresses::All,
        }
    }
}

/// The thread.
struct Follower<T> {
    table: T,
    metrics: SyncMetrics,
    clock: Clock,
    news: Receiver<News>,
    pending: PerFamily<Pending>,
    /// How often in a row something was left to be done.
    failures: u32,
    /// That there is nothing to look at has been said.
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

    /// Waits for something to do, and then for the moment, and listens meanwhile. False: nobody
    /// will ever tell anything again.
    fn has_work(&mut self, not_before: Instant) -> bool {
        let has_some = |pending: &Pending| !pending.suspects.is_empty();
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

    /// Does what is to be done in a family, if the kernel lets it. An error: something is left.
    fn sweep(&mut self, family: IpFamily) -> Result<(), FlowError> {
        let pending = self.pending.get_mut(family);
        if pending.suspects.is_empty() {
            return Ok(());
        }
        let node_ports = pending.node_ports.clone();
        let mut suspects = std::mem::take(&mut pending.suspects);
        let destinations = suspects.len();
        let started = (self.clock)();
        let machine = match machine_addresses(&suspects, &node_ports) {
            Ok(machine) => machine,
            Err(cause) => return self.judge(family, suspects, Err(cause)),
        };
        let has_node_ports = |ip: IpAddr| match &node_ports {
            NodePortAddresses::All => ip.is_loopback() || machine.contains(&ip),
            NodePortAddresses::Only(addresses) => addresses.binary_search(&ip).is_ok(),
        };
        let filters = suspects.filters();
        let (news, pending) = (&self.news, &mut self.pending);
        let mut is_stale = |flow: &Flow| {
            while let Ok(news) = news.try_recv() {
                if news.family == family {
                    suspects.amend(&news.suspects);
                }
                note(pending, news);
            }
            suspects.is_stale(flow, has_node_ports)
        };
        let (deleted, result) = self.table.sweep(family, &filters, &mut is_stale);
        let took = (self.clock)().saturating_duration_since(started);
        if result.is_ok() || deleted > 0 {
            self.metrics.conntrack_cleaned(family, took, deleted);
            debug!(%family, destinations, deleted, ?took, "looked for stale UDP flows");
        }
        self.judge(family, suspects, result)
    }

    /// What was left to be done is kept, unless it never can be done.
    fn judge(
        &mut self,
        family: IpFamily,
        mut suspects: Suspects,
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
                let pending = &mut self.pending.get_mut(family).suspects;
                suspects.absorb(std::mem::take(pending));
                *pending = suspects;
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
    pending.suspects.absorb(news.suspects);
    pending.node_ports = news.node_ports;
}

/// How long to wait after a look that took so long: where endpoints come and go all the time, no
/// more than a fifth of a processor is spent on this, unless clients would wait too long.
fn rest(took: Duration) -> Duration {
    took.saturating_mul(4).min(LONGEST_REST)
}

/// This machine's addresses, if they matter.
fn machine_addresses(
    suspects: &Suspects,
    node_ports: &NodePortAddresses,
) -> Result<BTreeSet<IpAddr>, FlowError> {
    if !suspects.has_node_ports() || *node_ports != NodePortAddresses::All {
        return Ok(BTreeSet::new());
    }
    local_addresses().map_err(|cause| FlowError::CutShort(cause.try_into().unwrap_or(Errno::EIO)))
}

#[cfg(test)]
#[path = "tests/flows.rs"]
mod tests;
