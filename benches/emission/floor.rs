//! One sync of the product for one changed endpoint, beside the bare program with the same payload.
//!
//! They take turns at going first, because the second finds everything in the caches. What a
//! payload says is true after it, so the kernel takes it twice.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use deltaproxy::testing::host::{
    BackendChoice, Binaries, CounterError, Exec, ExecOptions, Iptables, ListedChains, RestoreError,
    Restored, RunError,
};
use deltaproxy::testing::model::Change;
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{LARGE_CLUSTER_ENDPOINTS, PartialRestore};
use deltaproxy::testing::rules::{Backend, Payload, Table};
use deltaproxy::testing::sync::{Syncer, SyncerOptions};
use nix::sys::resource::UsageWho;
use serde::Serialize;

use crate::cluster::{World, upstream_settings};
use crate::figures::median;
use crate::kernel::{Cost, Kernel, cpu_of};
use crate::product::ENDPOINTS;

/// Changes before the first that counts: they allocate what is allocated once, and show what the
/// payloads are.
const WARM_UP: usize = 2;

/// The medians of many changes, in seconds.
#[derive(Debug, Serialize)]
pub struct Floor {
    pub services: usize,
    pub backend: &'static str,
    pub changes: usize,
    pub bytes: usize,
    /// From the change to the payload handed over.
    pub handed_over: f64,
    /// That, and what follows the program's end.
    pub work: f64,
    /// CPU of the product's thread in all of the sync, with starting the program.
    pub own_cpu: f64,
    pub sync: f64,
    pub program_cpu: f64,
    pub bare: f64,
    pub bare_cpu: f64,
    /// What the sync takes besides its own work, over the bare program: change by change.
    pub ratio: f64,
    /// Resident set of the product's process, in MiB.
    pub rss: f64,
}

pub fn measure(services: usize, backend: Backend, changes: usize) -> Floor {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let world = World::plain(IpFamily::V4, services, ENDPOINTS);
    let mut turns = world.turns(services / 2);
    let mut syncer = runtime.block_on(syncer(&world, backend));
    drop(world);
    let first = runtime.block_on(syncer.once(&[]));
    assert!(first.rules.nat > services as u64, "{:?}", first.attempts);
    let mut payloads = Vec::new();
    for turn in turns.by_ref().take(WARM_UP) {
        payloads.push(runtime.block_on(sync(&mut syncer, turn)).payload);
    }
    let kernel = Kernel::new(backend);
    let mut pairs = Vec::new();
    for (number, turn) in turns.take(changes).enumerate() {
        let payload = &payloads[number % WARM_UP];
        let (ours, bare);
        if number % 4 < 2 {
            ours = runtime.block_on(sync(&mut syncer, turn));
            bare = kernel.restore(payload);
        } else {
            bare = kernel.restore(payload);
            ours = runtime.block_on(sync(&mut syncer, turn));
        }
        assert_eq!(&ours.payload, payload);
        pairs.push((ours, bare));
    }
    summary(services, backend, &pairs)
}

fn summary(services: usize, backend: Backend, pairs: &[(Sync, Cost)]) -> Floor {
    let of = |part: fn(&(Sync, Cost)) -> f64| median(pairs.iter().map(part));
    Floor {
        services,
        backend: backend.as_str(),
        changes: pairs.len(),
        bytes: pairs[0].0.payload.len(),
        handed_over: of(|(ours, _)| ours.handed_over),
        work: of(|(ours, _)| ours.work),
        own_cpu: of(|(ours, _)| ours.own_cpu),
        sync: of(|(ours, _)| ours.whole),
        program_cpu: of(|(ours, _)| ours.program_cpu),
        bare: of(|(_, bare)| bare.wall),
        bare_cpu: of(|(_, bare)| bare.cpu),
        ratio: of(|(ours, bare)| (ours.whole - ours.work) / bare.wall),
        rss: resident(),
    }
}

/// One sync of the product.
struct Sync {
    payload: String,
    handed_over: f64,
    work: f64,
    own_cpu: f64,
    program_cpu: f64,
    whole: f64,
}

async fn sync(syncer: &mut Syncer<Watched>, change: Change) -> Sync {
    let usage = || {
        let own = cpu_of(UsageWho::RUSAGE_THREAD);
        (own, cpu_of(UsageWho::RUSAGE_CHILDREN))
    };
    let (own, children) = usage();
    let began = Instant::now();
    syncer.tracker.apply(change);
    let outcome = syncer.once(&[]).await;
    let ended = Instant::now();
    let (own_after, children_after) = usage();
    let watched = syncer.iptables();
    let handed_over = (watched.given.get() - began).as_secs_f64();
    assert_eq!(outcome.attempts.len(), 1, "{:?}", outcome.attempts);
    Sync {
        payload: String::from_utf8(outcome.attempts[0].payload.clone()).unwrap(),
        handed_over,
        work: handed_over + (ended - watched.back.get()).as_secs_f64(),
        own_cpu: own_after - own,
        program_cpu: children_after - children,
        whole: (ended - began).as_secs_f64(),
    }
}

async fn syncer(world: &World, backend: Backend) -> Syncer<Watched> {
    let choice = match backend {
        Backend::Nft => BackendChoice::Nft,
        Backend::Legacy => BackendChoice::Legacy,
    };
    let programs = Binaries::discover(choice, IpFamily::V4).await.unwrap();
    let now = Instant::now();
    let watched = Watched {
        exec: Exec::new(programs, ExecOptions::default()),
        given: Cell::new(now),
        back: Cell::new(now),
    };
    let mut render_settings = upstream_settings(IpFamily::V4);
    render_settings.fixed.backend = backend;
    render_settings.fixed.counters = BTreeSet::new();
    render_settings.fixed.large_cluster_endpoints = LARGE_CLUSTER_ENDPOINTS;
    let options = SyncerOptions {
        render_settings,
        partial_restore: PartialRestore::ChangedChains,
        full_sync_interval: Duration::from_secs(3600),
    };
    Syncer::new(watched, world.tracker(), options, Instant::now)
}

/// The product's iptables, and when it had the last payload.
struct Watched {
    exec: Exec,
    given: Cell<Instant>,
    back: Cell<Instant>,
}

impl Iptables for Watched {
    async fn restore(
        &self,
        payload: &mut dyn Payload,
        _: Option<Duration>,
    ) -> Result<Restored, RestoreError> {
        self.given.set(Instant::now());
        let restored = self.exec.restore(payload, None).await;
        self.back.set(Instant::now());
        restored
    }

    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        self.exec.save(table, each).await
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        self.exec.list(table, chains).await
    }

    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError> {
        self.exec.has(table, chain, rule).await
    }

    async fn make_counter(&self, name: &str) -> Result<(), CounterError> {
        self.exec.make_counter(name).await
    }
}

fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kibibytes.unwrap().trim().parse::<f64>().unwrap() / 1024.0
}
