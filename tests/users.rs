//! Virtual users create, scale and delete Services at the same time, as `benches/users` measures in
//! large: what that costs is judged by counters, and nothing stays behind.

use crate::load;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Instant;

use crate::support::daemon::{Backend, Daemon, wait_until_ok};
use crate::support::kube::ControlPlane;
use crate::support::left_out::{Part, skips};
use crate::support::netns::Netns;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, on_both_backends, tell};

#[path = "../benches/users/user.rs"]
mod user;

const USERS: usize = 8;
const ITERATIONS: usize = 40;

/// Services that exist besides: enough for a tree, since a flat dispatch chain is written whole.
const SERVICES: usize = 400;

/// Maximum bytes of partial payloads for each iteration, which is three changes of a Service with
/// at most five endpoints: the chains of all Services would be a megabyte each time.
const BYTES: u64 = 5_000;

on_both_backends!(Cluster, many_users_cost_no_more_than_their_changes);

fn many_users_cost_no_more_than_their_changes(backend: Backend) {
    if skips(Part::MoreCases) {
        return;
    }
    let (control, _) = load::Load::in_new_cluster(SERVICES, 5);
    let node = Netns::new("users");
    control.attach(&node, 2);
    let [kubeconfig, name] = control.flags();
    let daemon = Daemon::start(&node, backend, &[&kubeconfig, &name]);
    wait_until_ok(&node, "/healthz");
    let rules = || node.run(&format!("iptables-{}-save", backend.name()));
    let has_users = |wanted: bool| {
        eventually(PATIENCE, || {
            let saved = rules();
            let is_there = saved.contains("default/user-");
            let all = format!("default/service-{}:http", SERVICES - 1);
            ensure(is_there == wanted && saved.contains(&all), || saved)
        });
    };
    has_users(false);
    let before = figures(&node);
    let asked = work(&control);
    assert_eq!(asked, ITERATIONS * 2);
    has_users(false);
    let after = figures(&node);
    let [syncs, bytes, failures] = [0, 1, 2].map(|at| after[at] - before[at]);
    tell(format_args!(
        "users: {ITERATIONS} iterations on {}: {syncs} syncs, {bytes} bytes",
        backend.name()
    ));
    // A sync takes at least one change, and each iteration has three, with two objects.
    assert!(syncs >= 1 && syncs <= 4 * ITERATIONS as u64, "{syncs}");
    assert!(bytes <= BYTES * ITERATIONS as u64, "{bytes}");
    assert_eq!(failures, 0, "{}", daemon.log());
}

/// Lets all users work, and returns how many changes of endpoints they made.
fn work(control: &ControlPlane) -> usize {
    let taken = AtomicUsize::new(0);
    let clients: Vec<_> = (0..USERS).map(|_| control.client()).collect();
    let asked: Vec<Instant> = thread::scope(|scope| {
        let taken = &taken;
        let work = |api| scope.spawn(move || user::work(api, taken, ITERATIONS));
        let users: Vec<_> = clients.iter().map(work).collect();
        let asked = users.into_iter().flat_map(|user| user.join().unwrap());
        asked.collect()
    });
    asked.len()
}

/// Syncs, bytes of partial payloads, and failed restores.
fn figures(node: &Netns) -> [u64; 3] {
    let page = http::metrics(node, Daemon::METRICS);
    [
        "kubeproxy_sync_proxy_rules_duration_seconds_count{",
        "deltaproxy_restore_payload_bytes_sum{scope=\"partial\"}",
        "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
    ]
    .map(|start| http::count(&page, start))
}
