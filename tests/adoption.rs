//! Starting where a real kube-proxy has written rules. `damage` starts with damaged ones.

use serde_json::json;

use crate::support::daemon::{Backend, Daemon, Program};
use crate::support::lab::Lab;
use crate::support::rules::{Family, plain};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{objects, on_both_backends};

const TARGET: &str = "--to-destination 10.4.0.11:8080";

/// A node with the rules of a kube-proxy that has ended.
fn after_kube_proxy(backend: Backend) -> Lab {
    let lab = Lab::new(backend);
    let api = lab.control.api();
    for (name, spec) in [
        (
            "web",
            json!({"type": "NodePort", "sessionAffinity": "ClientIP"}),
        ),
        (
            "far",
            json!({"externalIPs": ["203.0.113.7"], "ipFamilyPolicy": "PreferDualStack"}),
        ),
        ("lone", json!({})),
    ] {
        let service = objects::service(name, spec);
        api.apply(&service);
        if name != "lone" {
            api.apply(&objects::slice(&service, &["10.4.0.11", "10.4.0.12"]));
        }
    }
    let mut upstream = lab.start(&Program::kube_proxy(), &["-v=2"]);
    eventually(PATIENCE, || {
        let (v4, v6) = (lab.rules(Family::V4), lab.rules(Family::V6));
        ensure(
            v4.matches(TARGET).count() == 2 && v6.contains("has no endpoints"),
            || v4,
        )
    });
    upstream.terminate();
    lab
}

fn wait_for_log(daemon: &Daemon, text: &str, times: usize) {
    eventually(PATIENCE, || {
        let log = daemon.log();
        ensure(log.matches(text).count() == times, || log)
    });
}

/// The chains and rules of a dump; those of `KUBE-SERVICES`, which have no order among Services,
/// sorted.
fn lines(save: &str) -> Vec<&str> {
    let mut lines: Vec<_> = plain(save).collect();
    lines.sort_by_key(|line| line.starts_with("-A KUBE-SERVICES").then_some(*line));
    lines
}

/// kube-proxy writes the rules of `KUBE-SERVICES` in random order.
fn only_dispatch_chains_are_written_where_kube_proxy_was(backend: Backend) {
    let lab = after_kube_proxy(backend);
    let before = Family::ALL.map(|family| lab.rules(family));
    let ours = lab.start(&Program::Deltaproxy, &["-v=2"]);
    // Nothing to write, or adopted rules differ.
    wait_for_log(&ours, "adopted", 2);
    let log = ours.log();
    assert!(!log.contains("scope=\"full\""), "{log}");
    for synced in log.lines().filter(|line| line.contains("synced")) {
        let (_, chains) = synced.split_once(" chains=").unwrap();
        let (chains, _) = chains.split_once(' ').unwrap();
        assert!(chains.parse::<usize>().unwrap() <= 2, "{log}");
    }
    for (family, before) in Family::ALL.into_iter().zip(&before) {
        assert_eq!(lines(&lab.rules(family)), lines(before));
    }
    let already = log.matches("synced").count();
    let service = objects::service("far", json!({}));
    let slice = objects::slice(&service, &["10.4.0.12"]);
    lab.control.api().apply(&slice);
    eventually(PATIENCE, || {
        let rules = lab.rules(Family::V4);
        ensure(rules.matches(TARGET).count() == 1, || rules)
    });
    wait_for_log(&ours, "synced", already + 1);
}

on_both_backends!(
    Upstream,
    only_dispatch_chains_are_written_where_kube_proxy_was
);
