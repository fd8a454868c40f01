//! Payloads for many Services at once: the same rules are said in another way, and end the same.

use std::collections::BTreeSet;

use crate::cluster;
use crate::cost;
use crate::support::netns::enter_new;
use crate::support::payloads;

use deltaproxy::testing::host::{BackendChoice, Binaries, Exec, Iptables};
use deltaproxy::testing::model::{Change, Endpoint};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{LARGE_CLUSTER_ENDPOINTS, LiveChains, Options, PartialRestore};
use deltaproxy::testing::rules::{Backend, RuleSet, Table, Text};

use cluster::{Use, World, ip, upstream_options};

const SERVICES: usize = 600;

/// A cluster whose kernel is up to date.
struct Settled {
    cluster: cost::Settled,
    kernel: RuleSet,
    /// What the kernel was given.
    said: Vec<String>,
}

fn options(backend: Backend) -> Options {
    Options {
        backend,
        counters: BTreeSet::new(),
        large_cluster_endpoints: LARGE_CLUSTER_ENDPOINTS,
        ..upstream_options(IpFamily::V4)
    }
}

impl Settled {
    fn new(backend: Backend) -> Self {
        let world = World::plain(IpFamily::V4, SERVICES, 5);
        let (cluster, full, _) = cost::Settled::with(world, options(backend));
        let mut settled = Self {
            cluster,
            kernel: RuleSet::default(),
            said: Vec::new(),
        };
        settled.take(full);
        settled
    }

    fn take(&mut self, payload: String) -> &str {
        self.kernel.apply(&payload).unwrap();
        self.said.push(payload);
        self.said.last().unwrap()
    }

    /// The payload of these changes, which the kernel then has.
    fn follow(&mut self, changes: Vec<Change>) -> &str {
        for change in changes {
            self.cluster.tracker.apply(change);
        }
        let (payload, _) = self.cluster.sync(PartialRestore::ChangedChains);
        self.take(payload)
    }

    /// The first `count` Services go.
    fn lose(&mut self, count: usize) -> &str {
        let gone = (0..count).map(|n| Change::Service(World::plain_name(n).0, None));
        self.follow(gone.collect())
    }

    /// All endpoints of the first `count` Services move: eleven chains each.
    fn replace(&mut self, count: usize) -> &str {
        let moved = (0..count).map(|n| {
            let (_, name) = World::plain_name(n);
            let mut slice = self.cluster.world.slices[&name].clone();
            slice.endpoints = (0..5)
                .map(|e| Endpoint::ready(ip(IpFamily::V4, Use::Pod, 100_000 + n * 5 + e)))
                .collect();
            Change::Slice(name, Some(Box::new(slice)), None)
        });
        let moved = moved.collect();
        self.follow(moved)
    }

    /// Whatever the payloads said, the rules are those of a full one.
    #[track_caller]
    fn is_as_if_full(&self) {
        let cost::Settled {
            tracker, options, ..
        } = &self.cluster;
        let (full, ..) = payloads::full(tracker, options, &live(""));
        let mut fresh = RuleSet::default();
        fresh.apply(&full).unwrap();
        assert_eq!(sorted(&self.kernel), sorted(&fresh));
    }
}

/// Chains with their rules; those of KUBE-SERVICES have no order but for the last.
fn sorted(rules: &RuleSet) -> Vec<(String, Vec<String>)> {
    let chains = rules.chains(Table::Nat).map(|(name, chain)| {
        let mut rules: Vec<_> = chain.rules.iter().map(ToString::to_string).collect();
        if name == "KUBE-SERVICES" {
            let last = rules.len() - 1;
            rules[..last].sort_unstable();
        }
        (name.to_string(), rules)
    });
    let mut chains: Vec<_> = chains.collect();
    chains.sort_unstable();
    chains
}

/// Lines that begin like this.
fn count(payload: &str, beginning: &str) -> usize {
    let lines = payload.lines();
    lines.filter(|line| line.starts_with(beginning)).count()
}

#[test]
fn a_flat_chain_is_written_whole_by_name() {
    for backend in [Backend::Nft, Backend::Legacy] {
        let mut settled = Settled::new(backend);
        let payload = settled.lose(1);
        assert_eq!(count(payload, "-D KUBE-SERVICES"), 0);
        assert_eq!(count(payload, "-A KUBE-SERVICES"), SERVICES);
        let rules = payload
            .lines()
            .filter(|l| l.starts_with("-A KUBE-SERVICES"));
        let names: Vec<_> = rules.map(|rule| rule.split('"').nth(1).unwrap()).collect();
        let (last, services) = names.split_last().unwrap();
        assert!(last.contains("nodeports"), "{last}");
        assert!(services.is_sorted());
        settled.is_as_if_full();
    }
}

/// How often a payload begins the nat table.
#[track_caller]
fn blocks(backend: Backend, services: usize) -> usize {
    let mut settled = Settled::new(backend);
    let payload = settled.replace(services);
    assert_eq!(count(payload, ":KUBE-S"), services * 11);
    let blocks = count(payload, "*nat");
    settled.is_as_if_full();
    blocks
}

#[test]
fn many_chains_are_written_in_blocks_on_nft() {
    // 6 chains of each Service are written, 5 are deleted; a block has 600.
    assert_eq!(blocks(Backend::Nft, 54), 1);
    assert_eq!(blocks(Backend::Nft, 55), 2);
    // All are written, then all are emptied, then all are deleted.
    assert_eq!(blocks(Backend::Nft, SERVICES), 6 + 5 + 5);
    assert_eq!(blocks(Backend::Legacy, SERVICES), 1);
}

/// The full payload for so many Services, of five endpoints each.
fn first(backend: Backend, services: usize, live: &LiveChains) -> String {
    let tracker = World::plain(IpFamily::V4, services, 5).tracker();
    payloads::full(&tracker, &options(backend), live).0
}

/// A kernel of which this is known of nat.
fn live(nat: &str) -> LiveChains {
    let mut live = LiveChains::default();
    live.read_table(Table::Nat, nat);
    live
}

/// Chains of Services that are there before the first of them has a rule.
fn headers_in_front(payload: &str) -> Vec<&str> {
    let is_header = |line: &&str| line.starts_with(":KUBE-SVC-") || line.starts_with(":KUBE-SEP-");
    let is_rule =
        |line: &&str| line.starts_with("-A KUBE-SVC-") || line.starts_with("-A KUBE-SEP-");
    let before = payload.lines().take_while(|line| !is_rule(line));
    before.filter(is_header).collect()
}

#[test]
fn the_first_restore_of_a_large_cluster_has_headers_first_on_legacy() {
    let (fewer, more) = (3_000, 3_001);
    let bare = live("");
    let used = live(":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n");
    for (backend, services, live) in [
        (Backend::Legacy, fewer, &bare),
        (Backend::Legacy, more, &used),
        (Backend::Legacy, more, &LiveChains::default()),
        (Backend::Nft, more, &bare),
    ] {
        let payload = first(backend, services, live);
        assert_eq!(headers_in_front(&payload).len(), 1, "{backend} {services}");
    }
    let payload = first(Backend::Legacy, more, &bare);
    let headers = headers_in_front(&payload);
    assert_eq!(headers.len(), more * 6);
    assert!(headers.is_sorted_by(|one, other| one > other));
    let (mut one, mut other) = (RuleSet::default(), RuleSet::default());
    one.apply(&payload).unwrap();
    other
        .apply(&first(Backend::Legacy, more, &LiveChains::default()))
        .unwrap();
    assert_eq!(sorted(&one), sorted(&other));
}

#[test]
fn a_legacy_kernel_takes_headers_first() {
    if !enter_new() {
        return;
    }
    let payload = first(Backend::Legacy, 3_001, &live(""));
    let mut wanted = RuleSet::default();
    wanted.apply(&payload).unwrap();
    let saved = restored(BackendChoice::Legacy, &[payload]);
    assert_eq!(sorted(&saved), sorted(&wanted));
}

/// All of it in a real kernel, in a network namespace of its own.
#[test]
fn kernels_take_bursts() {
    let choices = [
        (BackendChoice::Nft, Backend::Nft),
        (BackendChoice::Legacy, Backend::Legacy),
    ];
    for (choice, backend) in choices {
        if !enter_new() {
            return;
        }
        let mut settled = Settled::new(backend);
        settled.lose(81);
        settled.replace(SERVICES);
        let saved = restored(choice, &settled.said);
        assert_eq!(sorted(&saved), sorted(&settled.kernel), "{backend}");
    }
}

/// What the kernel of this thread's namespace holds after these payloads.
fn restored(choice: BackendChoice, payloads: &[String]) -> RuleSet {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let saved = builder.enable_all().build().unwrap().block_on(async {
        let programs = Binaries::discover(choice, IpFamily::V4).await.unwrap();
        let exec = Exec::new(programs);
        for payload in payloads {
            exec.restore(&mut Text::new(payload), None).await.unwrap();
        }
        exec.saved(Table::Nat).await.unwrap()
    });
    RuleSet::parse(&saved).unwrap()
}
