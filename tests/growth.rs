//! What one change costs as the cluster grows, in instructions: the same.
//!
//! Counted by callgrind, so that a busy machine counts the same: from the arrival of a changed
//! slice to the end of the sync, with a kernel that takes everything. `GROWTH=1000,10000,50000`
//! names other sizes.

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
use std::process::Command;
use std::time::{Duration, Instant};

use deltaproxy::host::{Iptables, NoCounter, RestoreError, Restored, RunError};
use deltaproxy::model::Change;
use deltaproxy::net::IpFamily;
use deltaproxy::render::{Counters, PartialRestore};
use deltaproxy::rules::{Payload, Table};
use deltaproxy::sync::{Outcome, Syncer, SyncerOptions};

use cluster::{World, upstream_surroundings};

/// Tells the child how many Services to have.
const SERVICES: &str = "GROWTH_SERVICES";
/// Hash tables and trees do not hit the same depth every time: this is what is called flat.
const TOLERANCE: f64 = 0.10;

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

    async fn list(&self, _: Table, _: &[&str]) -> Result<Option<String>, RunError> {
        Ok(None)
    }

    async fn has(&self, _: Table, _: &str, _: &str) -> Result<bool, RunError> {
        Ok(false)
    }

    async fn make_counter(&self, _: &str) -> Result<(), NoCounter> {
        Ok(())
    }
}

fn syncer(world: &World) -> Syncer<Sink> {
    let mut surroundings = upstream_surroundings(IpFamily::V4);
    surroundings.fixed.counters = Counters::NONE;
    let options = SyncerOptions {
        surroundings,
        shape: PartialRestore::ChangedChains,
        full_every: Duration::from_secs(3600),
    };
    Syncer::new(Sink, world.tracker(), options, Instant::now)
}

/// What callgrind counts, and nothing else.
#[inline(never)]
fn one_change(syncer: &mut Syncer<Sink>, change: Change) -> Outcome {
    syncer.tracker.apply(change);
    block_on(syncer.once(&[]))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work)
}

/// The child: not a test of its own.
#[test]
#[ignore = "run by the other one"]
fn count() {
    let services = env::var(SERVICES).unwrap().parse().unwrap();
    let world = World::plain(IpFamily::V4, services, 5);
    let mut syncer = syncer(&world);
    assert!(block_on(syncer.once(&[])).rules.nat > services as u64);
    let mut turns = world.turns(services / 2);
    // The first one fills what is allocated once.
    assert_ne!(block_on_change(&mut syncer, turns.next().unwrap()), 0);
    let outcome = one_change(&mut syncer, turns.next().unwrap());
    assert_eq!(outcome.attempts.len(), 1);
    assert_ne!(outcome.attempts[0].stats.bytes, 0);
}

fn block_on_change(syncer: &mut Syncer<Sink>, change: Change) -> u64 {
    syncer.tracker.apply(change);
    block_on(syncer.once(&[])).attempts[0].stats.bytes
}

/// Runs the child under callgrind and reads what it collected.
fn instructions(services: usize) -> f64 {
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
    let sizes = env::var("GROWTH").unwrap_or_else(|_| "100,1000,5000".to_owned());
    let counted: Vec<(usize, f64)> = sizes
        .split(',')
        .map(|size| size.parse().unwrap())
        .map(|size| (size, instructions(size)))
        .collect();
    let (_, first) = counted[0];
    assert!(
        first > 0.0,
        "the function was not found: are symbols stripped?"
    );
    for (services, count) in &counted {
        println!("{services} Services: {count} instructions");
        assert!(
            (count / first - 1.0).abs() < TOLERANCE,
            "{counted:?} differ by more than {TOLERANCE}"
        );
    }
}
