//! The daemon with another time, with a log that cannot be written, and next to a second one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::daemon::{Backend, backend_programs};
use crate::support::node::with_counted_restore;
use crate::support::process::Process;
use crate::support::{needs, on_both_backends, tell};
use crate::survival::scene::{Scene, nothing_is_left, open_files, through_shell};

/// The library that tells a program another time; `None`: not installed.
fn fake_time_library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let mut paths = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    paths.find(|path| path.exists())
}

/// The clock of the daemon and its restores, that of intervals excepted: no one can set it.
#[test]
fn a_clock_that_is_set_back_and_forth_is_survived() {
    needs!(Kernel);
    let library = fake_time_library().expect("the package `faketime` is installed");
    let scene = Scene::new(Backend::Nft);
    let folder = scene.node.manifests.path();
    let clock = folder.join(".clock");
    let set = |offset: &str| std::fs::write(&clock, offset).expect("write a file");
    set("+0");
    let bin = backend_programs(Backend::Nft);
    let log = folder.join(".log");
    let mut command = through_shell(&scene.node, &bin, "", "");
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", &clock)
        .env("FAKETIME_NO_CACHE", "1")
        .env("DONT_FAKE_MONOTONIC", "1");
    let daemon = Process::start("the proxy", &mut command, &log);
    scene.wait_until_fresh("start", || daemon.log());
    let files = open_files(daemon.id());
    for offset in ["-3600", "+7200", "-86400", "+0"] {
        set(offset);
        scene.change();
        scene.node.iptables(&["-t", "nat", "-F"]);
        let start = Instant::now();
        scene.wait_until_fresh(offset, || daemon.log());
        let what = format!("clock set by {offset} s, flush and change");
        scene.report(&what, start.elapsed());
    }
    nothing_is_left(daemon.id(), files, "clock");
    let log = daemon.log();
    let times = log.lines().filter_map(|line| line.split_once('Z'));
    let times: Vec<&str> = times.map(|(time, _)| time).collect();
    assert!(!times.is_sorted(), "the clock was not set: {log}");
}

#[test]
fn a_log_that_cannot_be_written_is_survived() {
    needs!(Kernel);
    let scene = Scene::new(Backend::Nft);
    let bin = backend_programs(Backend::Nft);
    for (what, redirect) in [
        ("log on a full disk", "2>/dev/full"),
        ("stderr closed", "2>&-"),
    ] {
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

/// Restores of both daemons end once they agree. No jump is lost here: two daemons that
/// miss one at the same moment each insert it, and both copies stay.
fn two_daemons_agree(backend: Backend) {
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
    let files = daemons.each_ref().map(|daemon| open_files(daemon.id()));
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
    for (daemon, files) in daemons.iter().zip(files) {
        nothing_is_left(daemon.id(), files, "two daemons");
    }
}

on_both_backends!(Kernel, two_daemons_agree);
