//! What clusters cost: rules and payload bytes, as exact numbers.
//!
//! A change of any number here has to be explained in the commit that makes it. The numbers of
//! rules are those of upstream.

use crate::cluster;
use crate::support::payloads;

use deltaproxy::testing::model::{Change, Endpoint, Service, Topology};
use deltaproxy::testing::net::{IpFamily, Port};
use deltaproxy::testing::render::{
    AppliedState, LARGE_CLUSTER_ENDPOINTS, LiveChains, Options, PartialRestore, PayloadStats,
    TreeThresholds,
};
use deltaproxy::testing::rules::{RuleSet, Table};
use deltaproxy::testing::tracker::Tracker;

use cluster::{Use, World, ip, upstream_options};

fn options() -> Options {
    Options {
        large_cluster_endpoints: LARGE_CLUSTER_ENDPOINTS,
        topology: Topology {
            zone: Some("a".into()),
        },
        ..upstream_options(IpFamily::V4)
    }
}

/// A cluster whose kernel is up to date.
pub(crate) struct Settled {
    pub(crate) world: World,
    pub(crate) tracker: Tracker,
    applied: AppliedState,
    pub(crate) options: Options,
}

impl Settled {
    fn new(world: World) -> (Self, String, PayloadStats) {
        Self::with(world, options())
    }

    /// With the first payload, and its size.
    pub(crate) fn with(world: World, options: Options) -> (Self, String, PayloadStats) {
        let mut tracker = world.tracker();
        let live = LiveChains::default();
        let (payload, applied, stats) = payloads::full(&tracker, &options, &live);
        tracker.mark_applied();
        (
            Self {
                world,
                tracker,
                applied,
                options,
            },
            payload,
            stats,
        )
    }

    pub(crate) fn sync(&mut self, shape: PartialRestore) -> (String, PayloadStats) {
        let Self {
            tracker,
            applied,
            options,
            ..
        } = self;
        payloads::partial(tracker, options, applied, shape)
    }

    /// The cluster is `after` now.
    fn follow(&mut self, after: World, shape: PartialRestore) -> (String, PayloadStats) {
        for change in self.world.changes_to(&after) {
            self.tracker.apply(change);
        }
        self.world = after;
        self.sync(shape)
    }
}

/// The rules of a full payload, as rendered and as taken by the kernel.
#[track_caller]
fn rules(world: World, filter: u64, nat: u64) {
    let shown = format!("{} Services", world.services.len());
    let (settled, payload, stats) = Settled::new(world);
    assert_eq!(
        (stats.rules.filter, stats.rules.nat),
        (filter, nat),
        "{shown}"
    );
    assert_eq!(settled.applied.rule_counts(), stats.rules);
    let mut kernel = RuleSet::default();
    kernel.apply(&payload).unwrap();
    let jumps: usize = [Table::Filter, Table::Nat]
        .into_iter()
        .flat_map(|table| {
            table
                .built_in_chains()
                .iter()
                .map(move |chain| (table, *chain))
        })
        .map(|(table, chain)| kernel.chain(table, chain).unwrap().rules.len())
        .sum();
    let held = kernel.rule_count(Table::Filter) + kernel.rule_count(Table::Nat);
    assert_eq!((held - jumps) as u64, filter + nat, "{shown}");
}

/// Upstream: `pkg/proxy/iptables/number_generated_rules_test.go`, `TestNumberIptablesRules` (v1.37)
#[test]
fn cluster_ips_cost_as_many_rules_as_upstream() {
    let plain = |services, endpoints| World::plain(IpFamily::V4, services, endpoints);
    rules(plain(0, 0), 4, 5);
    rules(plain(1, 0), 5, 5);
    rules(plain(1, 1), 4, 10);
    rules(plain(1, 2), 4, 13);
    rules(plain(1, 10), 4, 37);
    rules(plain(10, 0), 14, 5);
    rules(plain(10, 1), 4, 55);
    rules(plain(10, 2), 4, 85);
    rules(plain(10, 10), 4, 325);
    // 5 + S(2 + 3E), whatever the comments.
    rules(plain(100, 7), 4, 2_305);
    rules(plain(1_000, 2), 4, 8_005);
}

/// Upstream: `pkg/proxy/iptables/number_generated_rules_test.go`, `TestNumberIptablesRules` (v1.37)
#[test]
fn load_balancers_cost_as_many_rules_as_upstream() {
    let balanced = |services, endpoints| {
        let mut world = World::plain(IpFamily::V4, services, endpoints);
        for (n, service) in (0..).zip(world.services.values_mut()) {
            balance(service, n);
        }
        world
    };
    rules(balanced(0, 0), 4, 5);
    rules(balanced(1, 0), 8, 5);
    rules(balanced(1, 1), 5, 18);
    rules(balanced(1, 2), 5, 21);
    rules(balanced(1, 10), 5, 45);
    rules(balanced(10, 0), 44, 5);
    rules(balanced(10, 1), 14, 135);
    rules(balanced(10, 2), 14, 165);
    rules(balanced(10, 10), 14, 405);
}

fn balance(service: &mut Service, n: u16) {
    let address = ip(IpFamily::V4, Use::Balancer, n.into());
    service.external_ips = Box::new([address]);
    service.load_balancer_ips = Box::new([address]);
    service.source_ranges = Box::new(["1.2.3.0/28".parse().unwrap()]);
    service.ports[0].node_port = Port::new(30_000 + n);
}

/// Full payloads: their size grows with the cluster and with nothing else.
#[test]
fn full_payloads_cost_so_much() {
    let bytes = |services, endpoints| {
        let (_, _, stats) = Settled::new(World::plain(IpFamily::V4, services, endpoints));
        (stats.bytes, stats.chains)
    };
    // From 1,000 x 5 on the cluster is large, and rules of endpoints carry no comments.
    let sizes = [(0, 0), (1, 1), (100, 5), (1_000, 5), (10_000, 5)];
    assert_eq!(
        sizes.map(|(services, endpoints)| bytes(services, endpoints)),
        [
            (2_623, 9),
            (3_334, 11),
            (249_459, 609),
            (1_744_439, 6_009),
            (17_548_783, 60_009)
        ]
    );
}

/// Bytes, rules and chains of a payload.
type Cost = (u64, u64, u64);

/// Returns what changes of one cluster cost, each undone before the next.
fn changes<const N: usize>(
    services: usize,
    options: Options,
    edits: [fn(&mut World); N],
    shape: PartialRestore,
) -> [Cost; N] {
    let before = World::plain(IpFamily::V4, services, 5);
    let (mut settled, _, _) = Settled::with(before.clone(), options);
    edits.map(|edit| {
        settled.follow(before.clone(), shape);
        let mut after = before.clone();
        edit(&mut after);
        let (text, stats) = settled.follow(after, shape);
        assert_eq!(stats.bytes, text.len() as u64);
        (stats.bytes, stats.rules.total(), stats.chains)
    })
}

fn change(services: usize, edit: fn(&mut World), shape: PartialRestore) -> Cost {
    let [cost] = changes(services, options(), [edit], shape);
    cost
}

#[test]
fn one_change_of_endpoints_costs_the_same_in_every_cluster() {
    // All of these are large, so that rules of endpoints carry no comments in any of them.
    for services in [300, 1_000, 10_000] {
        let edits = [|_: &mut World| (), lose_an_endpoint, gain_an_endpoint];
        let costs = changes(services, options(), edits, PartialRestore::ChangedChains);
        let [nothing, less, more] = costs;
        assert_eq!(nothing, (0, 0, 0), "in a cluster of {services}");
        assert_eq!(less, (662, 5, 2), "in a cluster of {services}");
        assert_eq!(more, (1_000, 9, 2), "in a cluster of {services}");
    }
}

/// By default: a flat dispatch chain is written whole, of a tree a chain or two.
#[test]
fn a_service_more_or_less_writes_the_chain_with_its_rule() {
    let tree_thresholds = TreeThresholds::AUTO;
    let costs = [100, 300, 1_000, 10_000].map(|services| {
        let options = Options {
            tree_thresholds,
            ..options()
        };
        let shape = PartialRestore::ChangedChains;
        let gain = |world: &mut World| world.add_plain(100_000, 5);
        // In this order: the chain of 300 Services becomes a tree with one more, and stays one.
        let [less, more] = changes(services, options, [lose_a_service, gain], shape);
        (services, more, less)
    });
    let expected = [
        (100, (16_789, 118, 7), (14_535, 100, 7)),
        // The chain becomes a tree.
        (300, (53_914, 379, 68), (42_876, 300, 7)),
        (1_000, (2_564, 25, 11), (1_477, 7, 7)),
        (10_000, (2_198, 21, 9), (1_477, 7, 7)),
    ];
    assert_eq!(costs, expected);
}

/// What the other shape costs: every dispatch rule each time.
#[test]
fn kep_3453_writes_every_dispatch_rule() {
    let cost = |services| change(services, lose_an_endpoint, PartialRestore::Kep3453);
    assert_eq!(
        [300, 1_000, 10_000].map(cost),
        [
            (45_034, 322, 12),
            (144_169, 1_022, 12),
            (1_434_781, 10_022, 12)
        ]
    );
}

fn lose_an_endpoint(world: &mut World) {
    let (_, name) = World::plain_name(7);
    let slice = world.slices.get_mut(&name).unwrap();
    slice.endpoints = slice.endpoints[1..].into();
}

fn gain_an_endpoint(world: &mut World) {
    let (_, name) = World::plain_name(7);
    let slice = world.slices.get_mut(&name).unwrap();
    let mut endpoints = slice.endpoints.to_vec();
    endpoints.push(Endpoint::ready(ip(IpFamily::V4, Use::Pod, 200_000)));
    slice.endpoints = endpoints.into();
}

fn lose_a_service(world: &mut World) {
    let (service, slice) = World::plain_name(7);
    world.services.remove(&service);
    world.slices.remove(&slice);
}

/// A thousand endpoints changed one by one end in the same applied state as at once.
#[test]
fn a_burst_is_written_once() {
    let (mut one, _, _) = Settled::new(World::plain(IpFamily::V4, 300, 5));
    let mut turns = one.world.turns(7);
    for _ in 0..9 {
        let Some(change @ Change::Slice(..)) = turns.next() else {
            continue;
        };
        one.tracker.apply(change);
    }
    let (burst, _) = one.sync(PartialRestore::ChangedChains);
    assert_eq!(
        burst.len() as u64,
        change(300, lose_an_endpoint, PartialRestore::ChangedChains).0
    );
}

/// The mode is that of the cluster after the change, and only what is written anew has it.
///
/// Upstream: `pkg/proxy/iptables/proxier_test.go`, `TestSyncProxyRulesLargeClusterMode` (v1.37)
#[test]
fn above_a_thousand_endpoints_rules_of_endpoints_carry_no_comments() {
    let thousand = World::plain(IpFamily::V4, 200, 5);
    let (mut settled, full, _) = Settled::new(thousand.clone());
    let commented = |text: &str| text.matches(" -> ").count();
    assert_eq!(commented(&full), 1_000);

    let mut more = thousand.clone();
    gain_an_endpoint(&mut more);
    let shape = PartialRestore::ChangedChains;
    let (text, _) = settled.follow(more.clone(), shape);
    assert_eq!(
        (commented(&text), settled.applied.totals().endpoints),
        (0, 1_001)
    );
    assert_eq!(commented(&Settled::new(more).1), 0);

    let (text, _) = settled.follow(thousand, shape);
    assert_eq!(
        (commented(&text), settled.applied.totals().endpoints),
        (5, 1_000)
    );
}
