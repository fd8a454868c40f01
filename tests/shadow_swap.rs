//! One history of a node: a kube-proxy with a shadow next to it, then deltaproxy in its place, then
//! kube-proxy again, under changes of Services and new connections all the time: none may fail.
//!
//! The guides `shadow.md`, `replace.md` and `rollback.md` of `deploy/docs` are followed in this
//! order. It takes a minute, or `HISTORY_SECONDS`:
//!
//! ```text
//! HISTORY_SECONDS=3600 cargo test --test all -- --nocapture shadow_swap::
//! ```

use crate::{shadow, support, swap};

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use shadow::{SERVICES, SHADOW, family, footprint, slice, start_shadow, wait_for};
use support::daemon::{Backend, Daemon, Program};
use support::lab::{CLUSTER_CIDR, Lab};
use support::left_out::{Part, skips};
use support::wait::{PATIENCE, ensure, eventually};
use support::{on_both_backends, tell};
use swap::{AFTER, BEFORE, FLAT, Traffic, serves_metrics, start, wait_for_marker};

on_both_backends!(
    Upstream,
    no_connection_fails_from_shadow_to_replacement_and_back
);

/// Environment variable with the length of the history.
const SECONDS: &str = "HISTORY_SECONDS";

/// Time between two pauses of kube-proxy, during which nothing but the shadow could write.
const BETWEEN_PAUSES: Duration = Duration::from_secs(8);

/// Length of a pause: the shadow syncs a change within a second, and reads the tables.
const PAUSE: Duration = Duration::from_secs(2);

fn no_connection_fails_from_shadow_to_replacement_and_back(backend: Backend) {
    if skips(Part::OtherGroups) {
        return;
    }
    let seconds = std::env::var(SECONDS).map_or(60, |text| text.parse().unwrap());
    let phase = Duration::from_secs(seconds) / 3;
    let lab = swap::lab(backend);
    let kube_proxy = Program::kube_proxy();
    let mut proxy = start(&lab, &kube_proxy, FLAT);
    wait_for_marker(&lab, 0);
    let traffic = Traffic::start(&lab);
    traffic.wait_for(BEFORE);
    let (is_over, is_paused) = (AtomicBool::new(false), AtomicBool::new(false));
    let changes = AtomicUsize::new(0);
    scope(|threads| {
        threads.spawn(|| change_services(&lab, &is_over, &is_paused, &changes));
        let end = EndOnDrop(&is_over);

        let mut shadow = start_shadow(&lab, backend, SHADOW, CLUSTER_CIDR);
        let pauses = writes_nothing(&lab, backend, &proxy, &changes, phase);
        // Under changes, kube-proxy hardly ever has applied all of them.
        is_paused.store(true, Ordering::Relaxed);
        let v4 = wait_for(&lab, SHADOW, |v4| v4["waiting_services"] == 0);
        assert_eq!(v4["difference_count"], 0, "{v4}");
        tell_figures(backend, &v4, pauses);
        shadow.terminate();
        is_paused.store(false, Ordering::Relaxed);

        for (number, next) in [(1, &Program::Deltaproxy), (2, &kube_proxy)] {
            let started = Instant::now();
            proxy.terminate();
            proxy = start(&lab, next, FLAT);
            wait_for_marker(&lab, number);
            serves_metrics(&lab, next);
            traffic.wait_for(AFTER);
            sleep(phase.saturating_sub(started.elapsed()));
            // It still follows changes.
            wait_for_marker(&lab, 10 + number);
        }
        drop(end);
    });
    let (connections, failures) = traffic.end();
    assert!(
        failures.is_empty(),
        "{} of {connections} connections failed: {failures:#?}\n{}",
        failures.len(),
        proxy.log()
    );
    tell(format_args!(
        "swap: from a shadow to deltaproxy and back on {}, {seconds} s: {} changes, {connections} \
         connections, none failed",
        backend.name(),
        changes.load(Ordering::Relaxed),
    ));
}

/// Prints what the shadow has measured.
fn tell_figures(backend: Backend, v4: &Value, pauses: usize) {
    let lag = |of: &str| {
        let [sum, count] = ["sum_seconds", "count"].map(|end| v4[of][end].as_f64().unwrap());
        sum / count
    };
    tell(format_args!(
        "swap: with a shadow on {}: {} changes, kube-proxy took {:.3} s on average and deltaproxy \
         {:.3} s without the restore, {} not measured; {} bytes of payload instead of {}; readings \
         took {:.1} s of CPU time; {pauses} pauses without a write",
        backend.name(),
        v4["kube_proxy_lag"]["count"],
        lag("kube_proxy_lag"),
        lag("own_lag"),
        v4["unmeasured_changes"],
        v4["own_payloads"]["bytes"],
        v4["kube_proxy_bytes_at_least"],
        v4["readings"]["cpu_seconds"].as_f64().unwrap(),
    ));
}

/// Ends the changes of Services, also if the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Adds, changes and deletes Services that no client connects to.
fn change_services(lab: &Lab, is_over: &AtomicBool, is_paused: &AtomicBool, changes: &AtomicUsize) {
    let api = lab.control.api();
    let services: Vec<Value> = (0..SERVICES).map(shadow::service).collect();
    let mut round = 0;
    while !is_over.load(Ordering::Relaxed) {
        if is_paused.load(Ordering::Relaxed) {
            sleep(shadow::PACE);
            continue;
        }
        let service = &services[round % SERVICES];
        // Each in its turn is there for some rounds, and then not.
        match round / SERVICES % 4 {
            0 => {
                api.apply(service);
                api.apply(&slice(service, round));
            }
            3 => {
                api.delete(&slice(service, round));
                api.delete(service);
            }
            _ => api.apply(&slice(service, round)),
        }
        round += 1;
        changes.store(round, Ordering::Relaxed);
        sleep(shadow::PACE);
    }
}

/// Pauses kube-proxy again and again, and compares the rules at the start and the end of each
/// pause: the shadow follows changes meanwhile. Returns the number of pauses.
fn writes_nothing(
    lab: &Lab,
    backend: Backend,
    kube_proxy: &Daemon,
    changes: &AtomicUsize,
    phase: Duration,
) -> usize {
    let started = Instant::now();
    let process = Pid::from_raw(kube_proxy.id().cast_signed());
    let payloads = || {
        family(lab, SHADOW)["own_payloads"]["count"]
            .as_u64()
            .unwrap()
    };
    wait_for(lab, SHADOW, |v4| v4["readings"]["count"].as_u64() > Some(0));
    let mut pauses = 0;
    while pauses == 0 || started.elapsed() < phase {
        kill(process, Signal::SIGSTOP).unwrap();
        let before = after_last_restore(lab, backend);
        let (synced, round) = (payloads(), changes.load(Ordering::Relaxed));
        sleep(PAUSE);
        let is_following = payloads() > synced && changes.load(Ordering::Relaxed) > round;
        let after = footprint(lab, backend);
        kill(process, Signal::SIGCONT).unwrap();
        assert!(is_following, "the shadow has followed no change");
        assert_eq!(after, before);
        pauses += 1;
        sleep(BETWEEN_PAUSES);
    }
    pauses
}

/// Returns what the kernel shows once restores that a paused proxy had started have ended.
fn after_last_restore(lab: &Lab, backend: Backend) -> (u32, String, String) {
    eventually(PATIENCE, || {
        let first = footprint(lab, backend);
        sleep(Duration::from_millis(300));
        let second = footprint(lab, backend);
        ensure(first == second, || "the rules still change".to_owned())?;
        Ok(second)
    })
}
