//! Restores that hang because of one Service, with the real programs and a short deadline.

use crate::cluster;
use crate::support::netns::enter_new;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use deltaproxy::testing::host::{BackendChoice, Binaries, Exec, Iptables};
use deltaproxy::testing::model::{Change, Endpoint, ServiceName};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::PartialRestore;
use deltaproxy::testing::rules::Table;
use deltaproxy::testing::sync::{Outcome, QuarantineCause, SyncResult, Syncer, SyncerOptions};

use cluster::{World, upstream_settings};

/// Restores of a payload with this endpoint hang.
const POISON: &str = "10.66.66.66";

/// The programs of this machine, but restores with the endpoint do not end.
async fn programs(backend: BackendChoice, folder: &Path) -> Binaries {
    let mut programs = Binaries::discover(backend, IpFamily::V4).await.unwrap();
    let script = format!(
        "#!/bin/sh\npayload=$(cat)\ncase $payload in *{POISON}*) sleep 1000;; esac\n\
         printf '%s\\n' \"$payload\" | {} \"$@\"\n",
        programs.restore.to_string_lossy()
    );
    let path = folder.join("iptables-restore");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    programs.restore = path.into();
    programs
}

fn syncer(world: &World, exec: Exec) -> Syncer<Exec> {
    let mut render_settings = upstream_settings(IpFamily::V4);
    render_settings.fixed.backend = exec.binaries().backend();
    render_settings.fixed.counters = BTreeSet::new();
    let options = SyncerOptions {
        render_settings,
        partial_restore: PartialRestore::ChangedChains,
        full_sync_interval: Duration::from_secs(3600),
    };
    Syncer::new(exec, world.tracker(), options, now)
}

fn now() -> Instant {
    Instant::now()
}

/// The only endpoint of Service `n` moves.
fn moves(world: &World, n: usize, to: &str) -> Change {
    let (_, name) = World::plain_name(n);
    let mut slice = world.slices[&name].clone();
    slice.endpoints = Box::new([Endpoint::ready(to.parse().unwrap())]);
    Change::Slice(name, Some(Box::new(slice)), None)
}

fn name(n: usize) -> ServiceName {
    World::plain_name(n).0
}

async fn sync(syncer: &mut Syncer<Exec>) -> Outcome {
    let outcome = syncer.once(&[]).await;
    assert_eq!(outcome.result(), SyncResult::Applied, "{outcome:?}");
    outcome
}

async fn others_are_applied(backend: BackendChoice) {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(backend, folder.path()).await;
    let restore_deadline = Duration::from_secs(1);
    let world = World::plain(IpFamily::V4, 8, 1);
    let mut syncer = syncer(
        &world,
        Exec::new(programs).with_restore_deadline(restore_deadline),
    );
    sync(&mut syncer).await;

    for n in 2..6 {
        let to = if n == 4 {
            POISON
        } else {
            &format!("10.7.{n}.1")
        };
        syncer.tracker.apply(moves(&world, n, to));
    }
    // Each sync makes one trial that hangs, and syncs of others come between two of them.
    let (mut parts, mut restores, mut failed, mut found) = (0_usize, 0, 0, Vec::new());
    loop {
        let outcome = sync(&mut syncer).await;
        let next = syncer.next_retry();
        let Some(search) = outcome.search else {
            // A retry of the Service in quarantine comes between two parts.
            assert!(outcome.quarantine_retry.is_some());
            tokio::time::sleep_until(next.unwrap().into()).await;
            continue;
        };
        parts += 1;
        assert!(search.failed <= 1, "{search:?}");
        restores += search.restores;
        failed += search.failed;
        found.extend(search.quarantined);
        if search.held_back.is_empty() {
            assert_eq!(outcome.overridden, [name(4)]);
            break;
        }
        tokio::time::sleep_until(next.unwrap().into()).await;
    }
    assert_eq!(found[0].cause, QuarantineCause::TimedOut);
    // Of 4, 2 and 1 Services. A slow machine makes fewer trials in each part of the search, and
    // each further part begins with a restore that proves the node.
    let further = parts.saturating_sub(3);
    assert!(
        failed <= 3 && restores <= 9 + further,
        "{failed} of {restores} failed, in {parts} parts"
    );
    let nat = syncer.iptables().saved(Table::Nat).await.unwrap();
    for n in [2, 3, 5] {
        assert!(nat.contains(&format!("10.7.{n}.1:8080")), "{nat}");
    }
    let before = world.slices[&World::plain_name(4).1].endpoints[0].ip;
    assert!(
        nat.contains(&format!("{before}:8080")) && !nat.contains(POISON),
        "{nat}"
    );

    // Another's change is one restore, that does not hang.
    syncer.tracker.apply(moves(&world, 1, "10.7.1.1"));
    let outcome = sync(&mut syncer).await;
    assert_eq!(outcome.attempts.len(), 1);
    assert!(outcome.search.is_none() && outcome.quarantine_retry.is_none());
}

#[test]
fn a_service_with_which_restores_hang_is_quarantined() {
    for backend in [BackendChoice::Nft, BackendChoice::Legacy] {
        if !enter_new() {
            return;
        }
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(others_are_applied(backend));
    }
}
