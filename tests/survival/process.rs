//! The daemon stopped, with a log that cannot be written, and next to a second one.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::scene::{Scene, nothing_is_left, open_files, through_shell};
use crate::support::daemon::{Backend, backend_programs};
use crate::support::node::with_counted_restore;
use crate::support::process::Process;
use crate::support::{Need, machine_has, tell};

fn survives_a_stop(backend: Backend) {
    if !machine_has(Need::Kernel) {
        return;
    }
    let scene = Scene::new(backend);
    let daemon = scene.start(backend_programs(backend));
    let files = open_files(daemon.id());
    let id = Pid::from_raw(i32::try_from(daemon.id()).expect("a pid"));
    kill(id, Signal::SIGSTOP).expect("stop it");
    scene.change();
    scene.node.iptables(&["-t", "nat", "-F"]);
    std::thread::sleep(Duration::from_secs(10));
    kill(id, Signal::SIGCONT).expect("continue it");
    let start = Instant::now();
    scene.wait_until_fresh("stop", || daemon.log());
    scene.report(
        "SIGSTOP for 10 s, flush and change meanwhile",
        start.elapsed(),
    );
    nothing_is_left(daemon.id(), files, "stop");
}

#[test]
fn a_stopped_daemon_catches_up_on_nft() {
    survives_a_stop(Backend::Nft);
}

#[test]
fn a_stopped_daemon_catches_up_on_legacy() {
    survives_a_stop(Backend::Legacy);
}

fn survives_without_a_log(backend: Backend) {
    if !machine_has(Need::Kernel) {
        return;
    }
    for (what, redirect) in [
        ("log on a full disk", "2>/dev/full"),
        ("stderr closed", "2>&-"),
    ] {
        let scene = Scene::new(backend);
        let bin = backend_programs(backend);
        let log = scene.node.manifests.path().join(".log");
        let mut command = through_shell(&scene.node, &bin, redirect, "");
        let mut daemon = Process::start("the proxy", &mut command, &log);
        scene.wait_until_fresh(what, || daemon.log());
        let files = open_files(daemon.id());
        scene.node.iptables(&["-t", "nat", "-F"]);
        scene.change();
        let start = Instant::now();
        scene.wait_until_fresh(what, || daemon.log());
        scene.report(&format!("{what}, flush of nat"), start.elapsed());
        nothing_is_left(daemon.id(), files, what);
        daemon.assert_running();
    }
}

#[test]
fn a_log_that_cannot_be_written_is_survived_on_nft() {
    survives_without_a_log(Backend::Nft);
}

#[test]
fn a_log_that_cannot_be_written_is_survived_on_legacy() {
    survives_without_a_log(Backend::Legacy);
}

/// Restores of both daemons end once they agree. No jump is lost here: two daemons that
/// miss one at the same moment each insert it, and both copies stay.
fn two_agree(backend: Backend) {
    if !machine_has(Need::Kernel) {
        return;
    }
    let scene = Scene::new(backend);
    let calls = scene.node.manifests.path().join(".calls");
    let bin = with_counted_restore(backend, &calls);
    let log = scene.node.manifests.path().join(".log");
    let ports = "--healthz-bind-address=127.0.0.1:10356 --metrics-bind-address=127.0.0.1:10349";
    let start = |more| {
        let mut command = through_shell(&scene.node, &bin, "", more);
        Process::start("the proxy", &mut command, &log)
    };
    let first = start("");
    scene.wait_until_fresh("one daemon", || first.log());
    let daemons = [first, start(ports)];
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..3 {
        scene.change();
        scene.wait_until_fresh("two daemons", || daemons[0].log());
    }
    // Both see each flush at the same moment.
    for _ in 0..5 {
        scene.node.iptables(&["-t", "nat", "-F", "KUBE-SERVICES"]);
        let flushed = Instant::now();
        scene.wait_until_fresh("two daemons", || daemons[0].log());
        scene.report(
            "flush of KUBE-SERVICES under two daemons",
            flushed.elapsed(),
        );
    }
    std::thread::sleep(Duration::from_secs(5));
    let runs = || std::fs::read(&calls).map_or(0, |text| text.len());
    let before = runs();
    std::thread::sleep(Duration::from_secs(4));
    let more = runs() - before;
    tell(format!(
        "fault: {}: two daemons: {more} restores in 4 calm s",
        backend.name()
    ));
    assert_eq!(more, 0, "they fight: {}", daemons[0].log());
    scene.wait_until_fresh("two daemons", || daemons[0].log());
}

#[test]
fn two_daemons_agree_on_nft() {
    two_agree(Backend::Nft);
}

#[test]
fn two_daemons_agree_on_legacy() {
    two_agree(Backend::Legacy);
}
