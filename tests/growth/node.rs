//! One family's sync, with a kernel that takes everything and remembers nothing.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use deltaproxy::testing::conntrack::stale_candidates;
use deltaproxy::testing::host::{
    CounterError, Iptables, ListedChains, RestoreError, Restored, RunError,
};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{PartialRestore, TreeThresholds};
use deltaproxy::testing::rules::{Payload, Table};
use deltaproxy::testing::sync::{Outcome, Syncer, SyncerOptions};

use super::cluster::{World, upstream_settings};

/// A kernel that takes everything and remembers nothing.
pub(crate) struct Sink;

impl Iptables for Sink {
    async fn restore(
        &self,
        payload: &mut dyn Payload,
        _: Option<Duration>,
    ) -> Result<Restored, RestoreError> {
        let mut chunk = Vec::new();
        while payload.write_next(&mut chunk) {
            chunk.clear();
        }
        Ok(Restored::default())
    }

    async fn save(&self, _: Table, _: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        Ok(())
    }

    async fn list(&self, _: Table, _: &[&str]) -> Result<ListedChains, RunError> {
        Ok(ListedChains::Missing)
    }

    async fn has(&self, _: Table, _: &str, _: &str) -> Result<bool, RunError> {
        Ok(false)
    }

    async fn make_counter(&self, _: &str) -> Result<(), CounterError> {
        Ok(())
    }
}

/// One family's state, as [`deltaproxy::testing::sync::Task`] has it.
pub(crate) struct Node {
    pub(crate) syncer: Syncer<Sink>,
}

impl Node {
    pub(crate) fn new(world: &World) -> Self {
        let mut render_settings = upstream_settings(IpFamily::V4);
        render_settings.fixed.counters = BTreeSet::new();
        render_settings.fixed.tree_thresholds = TreeThresholds::AUTO;
        let options = SyncerOptions {
            render_settings,
            partial_restore: PartialRestore::ChangedChains,
            full_sync_interval: Duration::from_secs(3600),
        };
        Self {
            syncer: Syncer::new(Sink, world.tracker(), options, Instant::now),
        }
    }

    pub(crate) fn sync(&mut self) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let outcome = runtime.unwrap().block_on(self.syncer.once(&[]));
        let (changed, tracker) = (&outcome.applied.before, &self.syncer.tracker);
        let options = self.syncer.applied_options().unwrap();
        let candidates = stale_candidates(changed, tracker, options);
        black_box(candidates);
        outcome
    }
}
