//! The product's own payloads for a plain cluster, without its daemon.

use std::collections::BTreeSet;

use deltaproxy::testing::model::Change;
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{
    AppliedState, FullPayload, JUMPS, LARGE_CLUSTER_ENDPOINTS, LiveChains, Options, PartialRestore,
    partial_payload,
};
use deltaproxy::testing::rules::{Backend, Payload, Table};
use deltaproxy::testing::tracker::Tracker;

use crate::cluster::{World, upstream_options};
use crate::kernel::Kernel;

pub const ENDPOINTS: usize = 5;

/// A cluster and what the kernel has of it.
pub struct Product {
    pub world: World,
    tracker: Tracker,
    applied: AppliedState,
    options: Options,
}

/// What a full payload meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// The jumps, and no chain too many.
    Everything,
}

impl Product {
    /// Nothing of it is in the kernel.
    pub fn new(services: usize, backend: Backend) -> Self {
        let world = World::plain(IpFamily::V4, services, ENDPOINTS);
        let tracker = world.tracker();
        let options = Options {
            backend,
            counters: BTreeSet::new(),
            large_cluster_endpoints: LARGE_CLUSTER_ENDPOINTS,
            ..upstream_options(IpFamily::V4)
        };
        Self {
            world,
            tracker,
            applied: AppliedState::default(),
            options,
        }
    }

    /// All of it is in the kernel.
    pub fn settled(services: usize, kernel: &Kernel) -> Self {
        let mut product = Self::new(services, kernel.backend);
        kernel.restore(&product.full(Found::Nothing));
        product
    }

    pub fn backend(&self) -> Backend {
        self.options.backend
    }

    /// The full payload.
    pub fn full(&mut self, found: Found) -> String {
        let mut live = LiveChains::default();
        for table in [Table::Filter, Table::Nat, Table::Mangle] {
            live.note_read(table);
        }
        if found == Found::Everything {
            for jump in &JUMPS {
                live.note_jump(jump);
            }
        }
        let mut full = FullPayload::new(&self.tracker, &self.options, &live);
        let mut bytes = Vec::new();
        while full.write_next(&mut bytes) {}
        (self.applied, _) = full.finish();
        self.tracker.mark_applied();
        String::from_utf8(bytes).unwrap()
    }

    /// The partial payload of these changes.
    pub fn follow(&mut self, changes: impl IntoIterator<Item = Change>) -> String {
        for change in changes {
            self.tracker.apply(change);
        }
        let names: Vec<_> = self.tracker.dirty().collect();
        let shape = PartialRestore::ChangedChains;
        let names = names.into_iter();
        let partial = partial_payload(
            &mut self.applied,
            &self.tracker,
            names,
            &self.options,
            shape,
        );
        self.applied.written(partial.rendered);
        self.tracker.mark_applied();
        String::from_utf8(partial.text).unwrap()
    }

    /// Service number `n` goes.
    pub fn without(n: usize) -> Change {
        Change::Service(World::plain_name(n).0, None)
    }

    /// Service number `n` comes back.
    pub fn with(&self, n: usize) -> Change {
        let (name, _) = World::plain_name(n);
        let service = self.world.services[&name].clone();
        Change::Service(name, Some(Box::new(service)))
    }
}

/// `count` numbers below `of`, spread evenly.
pub fn spread(count: usize, of: usize) -> impl Iterator<Item = usize> + Clone {
    (0..count).map(move |nth| nth * of / count)
}
