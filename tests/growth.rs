//! What one change costs as the cluster grows, in instructions: the same.
//!
//! Counted by callgrind, so that a busy machine counts the same: from the arrival of a changed
//! object to the end of the sync and to what it leaves behind in conntrack, with a kernel that
//! takes everything. `GROWTH=1000,10000,50000` names other sizes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails loudly, prints what it counted, and runs programs"
)]

#[path = "support/cluster.rs"]
mod cluster;

use std::env;
use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use deltaproxy::conntrack::{Claims, left_behind};
use deltaproxy::host::{Iptables, ListedChains, NoCounter, RestoreError, Restored, RunError};
use deltaproxy::model::Change;
use deltaproxy::net::{IpFamily, Protocol};
use deltaproxy::render::{Counters, PartialRestore};
use deltaproxy::rules::{Payload, Table};
use deltaproxy::sync::{Outcome, Syncer, SyncerOptions};

use cluster::{World, upstream_surroundings};

/// Tells the child how many Services to have.
const SERVICES: &str = "GROWTH_SERVICES";
/// Tells the child what changes.
const CHANGE: &str = "GROWTH_CHANGE";
/// An endpoint comes back.
const ENDPOINT: &str = "endpoint";
/// A UDP Service goes, of as many as there are: its flows may be another's.
const UDP_SERVICE: &str = "UDP Service";
/// Hash tables and trees do not hit the same depth every time: this is what is called flat. Of a
/// Service that goes less is written, so that the depth of the trees is more of the whole: 6,000
/// instructions from one size to the next, where a walk through 5,000 Services takes 65 million.
const TOLERANCES: [(&str, f64); 2] = [(ENDPOINT, 0.10), (UDP_SERVICE, 0.15)];

/// A kernel that takes everything and remembers nothing.
struct Sink;

impl Iptables for Sink {
    async fn restore(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError> {
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

    async fn make_counter(&self, _: &str) -> Result<(), NoCounter> {
        Ok(())
    }
}

/// One family's state, as [`deltaproxy::sync::Task`] has it.
struct Node {
    syncer: Syncer<Sink>,
    claims: Claims,
}

impl Node {
    fn new(world: &World) -> Self {
        let mut surroundings = upstream_surroundings(IpFamily::V4);
        surroundings.fixed.counters = Counters::NONE;
        let options = SyncerOptions {
            surroundings,
            shape: PartialRestore::ChangedChains,
            full_every: Duration::from_secs(3600),
        };
        Self {
            syncer: Syncer::new(Sink, world.tracker(), options, Instant::now),
            claims: Claims::default(),
        }
    }

    fn sync(&mut self) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let outcome = runtime.unwrap().block_on(self.syncer.once(&[]));
        let (changed, tracker) = (&outcome.settled.before, &self.syncer.tracker);
        let options = self.syncer.written().unwrap();
        let suspects = left_behind(changed, tracker, options, &mut self.claims);
        black_box(suspects);
        outcome
    }
}

/// What callgrind counts, and nothing else.
#[inline(never)]
fn one_change(node: &mut Node, change: Change) -> Outcome {
    node.syncer.tracker.apply(change);
    node.sync()
}

/// The child: not a test of its own.
#[test]
#[ignore = "run by the other one"]
fn count() {
    let services = env::var(SERVICES).unwrap().parse().unwrap();
    let what = env::var(CHANGE).unwrap();
    let mut world = World::plain(IpFamily::V4, services, 5);
    if what == UDP_SERVICE {
        for service in world.services.values_mut() {
            service.ports[0].protocol = Protocol::Udp;
        }
        for slice in world.slices.values_mut() {
            slice.ports[0].protocol = Protocol::Udp;
        }
    }
    let mut node = Node::new(&world);
    assert!(node.sync().rules.nat > services as u64);
    let of = services / 2;
    // The first ones fill what is allocated once.
    let (first, counted): (Vec<_>, _) = match what.as_str() {
        ENDPOINT => (world.turns(of).take(1).collect(), world.turns(of).nth(1)),
        UDP_SERVICE => (world.visits(of).take(2).collect(), world.visits(of).next()),
        other => panic!("{other}"),
    };
    for change in first {
        node.syncer.tracker.apply(change);
        assert_ne!(node.sync().attempts[0].stats.bytes, 0);
    }
    let outcome = one_change(&mut node, counted.unwrap());
    assert_eq!(outcome.attempts.len(), 1);
    assert_ne!(outcome.attempts[0].stats.bytes, 0);
}

/// Runs the child under callgrind and reads what it collected.
fn instructions(change: &str, services: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*one_change*",
        ])
        .arg(format!(
            "--callgrind-out-file={}",
            folder.path().join("out").display()
        ))
        .arg(env::current_exe().unwrap())
        .args(["--exact", "count", "--ignored", "--test-threads=1"])
        .env(SERVICES, services.to_string())
        .env(CHANGE, change)
        .output()
        .unwrap_or_else(|error| panic!("valgrind: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let collected = said
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, count) = collected.unwrap_or_else(|| panic!("no count in {said}"));
    count.trim().parse().unwrap()
}

#[test]
fn one_change_costs_the_same_in_every_cluster() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        assert!(
            env::var_os("REQUIRE_KERNEL").is_none(),
            "valgrind is missing"
        );
        println!("skipped: valgrind is missing");
        return;
    }
    for (change, tolerance) in TOLERANCES {
        check(change, tolerance);
    }
}

#[track_caller]
fn check(change: &str, tolerance: f64) {
    let sizes = env::var("GROWTH").unwrap_or_else(|_| "100,1000,5000".to_owned());
    let counted: Vec<(usize, f64)> = sizes
        .split(',')
        .map(|size| size.parse().unwrap())
        .map(|size| (size, instructions(change, size)))
        .collect();
    let (_, first) = counted[0];
    assert!(
        first > 0.0,
        "the function was not found: are symbols stripped?"
    );
    for (services, count) in &counted {
        println!("{change}, {services} Services: {count} instructions");
        assert!(
            (count / first - 1.0).abs() < tolerance,
            "{change}: {counted:?} differ by more than {tolerance}"
        );
    }
}
