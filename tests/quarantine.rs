//! Services because of which real restores fail, and all others, on a real kernel.

use std::path::Path;

use crate::support::daemon::{Backend, Daemon};
use crate::support::http;
use crate::support::node::{Node, copy_extensions, with_restore};
use crate::support::program::run_in;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, objects, on_both_backends};
use serde_json::{Value, json};

/// An endpoint that only the Service at fault has.
const POISON: &str = "10.4.66.66";
/// Services of the cluster, `s1` to `s6`.
const COUNT: u8 = 6;

/// Services with an endpoint of their own each, and the fourth with this one.
fn services(endpoint: &str, others_end_in: u8) -> Vec<Value> {
    let objects = (1..=COUNT).flat_map(|number| {
        let ip = format!("10.96.0.{number}");
        let service = objects::service(&format!("s{number}"), json!({"clusterIP": ip}));
        let own = format!("10.4.{number}.{others_end_in}");
        let slice = objects::slice(&service, &[if number == 4 { endpoint } else { &own }]);
        [service, slice]
    });
    objects.collect()
}

fn fourth_has(endpoint: &str, others_end_in: u8) -> String {
    objects::manifest(&services(endpoint, others_end_in))
}

/// How a restore of a table with the endpoint fails.
#[derive(Clone, Copy)]
enum Failure {
    /// At the line that has it.
    Line,
    /// In the words of the backend that name only the `COMMIT`, or nothing.
    Commit,
    /// Killed, as by the kernel when memory runs out.
    Kill,
}

/// `iptables-restore` that fails so. Each run of it adds a line to `calls`.
fn script(failure: Failure, calls: &Path) -> String {
    let fail = match failure {
        Failure::Line => {
            "line=$(printf '%s\\n' \"$payload\" | grep -n -m 1 -F 10.4.66.66 | cut -d: -f1)\n\
             echo \"iptables-restore: line $line failed\" >&2; exit 1"
        }
        Failure::Commit => "echo 'iptables-restore: internal error' >&2; exit 1",
        Failure::Kill => "kill -9 $$",
    };
    format!(
        "payload=$(cat)\n\
         echo >>{calls}\n\
         case $payload in *'{POISON}'*)\n{fail};;\nesac\n\
         printf '%s\\n' \"$payload\" | $REAL \"$@\"",
        calls = calls.display()
    )
}

/// The sum of a metric of the IPv4 family.
fn metric(node: &Node, name: &str) -> u64 {
    http::count(&node.metrics(), &format!("{name}{{ip_family=\"IPv4\""))
}

fn in_quarantine(node: &Node) -> u64 {
    metric(node, "deltaproxy_quarantined_services")
}

/// `deltaproxy services` says that changes of the fourth Service are not applied.
fn services_names_it(node: &Node) {
    let said = run_in(&node.netns, &["services"]).stderr;
    let expected = "(IPv4): 1: default/s4; their changes";
    assert!(said.contains(expected), "{said}");
}

/// `deltaproxy status` says that the node is degraded, and why.
fn status_names_it(node: &Node) {
    let status = run_in(&node.netns, &["status"]);
    let text = &status.stdout;
    assert_eq!(status.code, Some(1), "{text}");
    let expected = "finding  IPv4: 1 in quarantine: default/s4\n";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("\nIPv4 quarantine: default/s4: "), "{text}");
}

/// For support, in the folder of `--state-dir`.
fn the_failed_payload_is_kept(state: &Path) {
    eventually(PATIENCE, || {
        let path = state.join("failed-ipv4.payload");
        let kept = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        ensure(kept.contains(POISON), || kept)
    });
}

fn one_service_fails_and_others_are_applied(backend: Backend, failure: Failure, most: u64) {
    needs!(Kernel);
    let node = Node::new(backend);
    node.write(&fourth_has("10.4.4.1", 1));
    let calls = node.manifests.path().join(".calls");
    let state = tempfile::tempdir().expect("a folder");
    let state_dir = format!("--state-dir={}", state.path().display());
    let bin = with_restore(backend, &script(failure, &calls));
    let mut daemon = node.start_with(bin, &[&state_dir]);
    node.wait_for_rule("--to-destination 10.4.6.1:8080");

    node.write(&fourth_has(POISON, 2));
    node.wait_for_rule("--to-destination 10.4.6.2:8080");
    eventually(PATIENCE, || {
        ensure(in_quarantine(&node) == 1, || daemon.log())
    });
    let rules = node.rules();
    for number in [1, 2, 3, 5, 6] {
        assert!(rules.contains(&format!("10.4.{number}.2:8080")), "{rules}");
    }
    assert!(
        rules.contains("10.4.4.1:8080"),
        "its last rules stay: {rules}"
    );
    let log = daemon.log();
    assert_eq!(log.matches("Service quarantined").count(), 1, "{log}");
    assert!(log.contains("default/s4"), "{log}");
    let searched = metric(&node, "deltaproxy_isolation_restores_total");
    assert!((1..=most).contains(&searched), "{searched} restores\n{log}");
    let (status, body) = http::get(&node.netns, Daemon::HEALTH, "/healthz").expect("an answer");
    assert!(status == 200 && !body.contains("s4"), "{status} {body}");

    services_names_it(&node);
    status_names_it(&node);
    the_failed_payload_is_kept(state.path());

    // Each later change of others is one restore that succeeds.
    let failures = || {
        metric(
            &node,
            "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
        )
    };
    let before = failures();
    for last in 3..=5 {
        node.write(&fourth_has(POISON, last));
        node.wait_for_rule(&format!("--to-destination 10.4.6.{last}:8080"));
    }
    assert_eq!(failures(), before, "{}", daemon.log());

    // A mended Service returns 1 s after it was tried last.
    node.write(&fourth_has("10.4.4.7", 5));
    node.wait_for_rule("--to-destination 10.4.4.7:8080");
    eventually(PATIENCE, || {
        ensure(in_quarantine(&node) == 0, || daemon.log())
    });
    daemon.assert_logged("released from quarantine");
    daemon.assert_running();
}

#[test]
fn a_refused_line_quarantines_its_service() {
    one_service_fails_and_others_are_applied(Backend::Nft, Failure::Line, 1);
}

#[test]
fn a_restore_that_names_no_line_quarantines_one_service() {
    one_service_fails_and_others_are_applied(Backend::Legacy, Failure::Commit, 10);
}

#[test]
fn a_killed_restore_quarantines_one_service() {
    one_service_fails_and_others_are_applied(Backend::Nft, Failure::Kill, 14);
}

/// With the rules of the process before it, and without any.
fn a_start_with_a_service_at_fault_programs_all_others(backend: Backend) {
    let failure = match backend {
        Backend::Nft => Failure::Line,
        Backend::Legacy => Failure::Kill,
    };
    let node = Node::new(backend);
    let calls = node.manifests.path().join(".calls");
    let start = || node.start(with_restore(backend, &script(failure, &calls)));
    node.write(&fourth_has(POISON, 1));
    for last in [1, 2] {
        node.write(&fourth_has(POISON, last));
        let daemon = start();
        node.wait_for_rule(&format!("--to-destination 10.4.6.{last}:8080"));
        eventually(PATIENCE, || {
            ensure(in_quarantine(&node) == 1, || daemon.log())
        });
        let rules = node.rules();
        for number in [1, 2, 3, 5, 6] {
            assert!(
                rules.contains(&format!("10.4.{number}.{last}:8080")),
                "{rules}"
            );
        }
        assert!(
            rules.contains("default/s4:http has no endpoints"),
            "{rules}"
        );
    }
}

on_both_backends!(Kernel, a_start_with_a_service_at_fault_programs_all_others);

/// Services of one namespace that the node rejects.
const REJECTED: u8 = 60;

/// Services for SCTP, each with an endpoint.
fn for_sctp() -> Vec<Value> {
    let objects = (1..=REJECTED).flat_map(|number| {
        let port = json!({"name": "p", "protocol": "SCTP", "port": 80, "targetPort": 8080});
        let spec = json!({"clusterIP": format!("10.97.0.{number}"), "ports": [port]});
        let service = objects::service(&format!("e{number}"), spec);
        let slice = objects::slice(&service, &[&format!("10.5.0.{number}")]);
        [service, slice]
    });
    let mut objects: Vec<Value> = objects.collect();
    for object in &mut objects {
        object["metadata"]["namespace"] = "tenant".into();
    }
    objects
}

/// A Service with so many endpoints that rules for endpoints have no comments.
fn large() -> Vec<Value> {
    let service = objects::service("large", json!({"clusterIP": "10.96.1.1"}));
    let slices = (0..10).map(|number| {
        let addresses: Vec<String> = (1..=100).map(|n| format!("10.6.{number}.{n}")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let mut slice = objects::slice(&service, &addresses);
        slice["metadata"]["name"] = format!("large-{number}").into();
        slice
    });
    slices.chain([service.clone()]).collect()
}

/// The extension for SCTP is missing, as where a node image leaves it out.
fn many_rejected_services_do_not_delay_others(backend: Backend) {
    let node = Node::new(backend);
    let extensions = tempfile::tempdir().expect("make a folder");
    copy_extensions(extensions.path(), "libxt_sctp.so");
    let script = format!(
        "XTABLES_LIBDIR={} exec $REAL \"$@\"",
        extensions.path().display()
    );
    let others = |last| [large(), services("10.4.4.1", last)].concat();
    node.write(&objects::manifest(&others(1)));
    let daemon = node.start(with_restore(backend, &script));
    node.wait_for_rule("--to-destination 10.4.6.1:8080");

    for last in 2..=6 {
        node.write(&objects::manifest(&[for_sctp(), others(last)].concat()));
        node.wait_for_rule(&format!("--to-destination 10.4.6.{last}:8080"));
    }
    node.iptables(&["-t", "nat", "-F", "KUBE-SERVICES"]);
    node.wait_for_rule("-A KUBE-SERVICES -d 10.96.0.6/32");
    // One after the other, with pauses for other changes.
    eventually(PATIENCE * 3, || {
        let log = daemon.log();
        let found = log.matches("Service quarantined").count();
        ensure(found == usize::from(REJECTED), || log)
    });
    assert_eq!(in_quarantine(&node), u64::from(REJECTED));
    let (status, body) = http::get(&node.netns, Daemon::HEALTH, "/livez").expect("an answer");
    assert_eq!(status, 200, "{body}");
    let log = daemon.log();
    assert!(!log.contains("likely on this node"), "{log}");
}

on_both_backends!(Kernel, many_rejected_services_do_not_delay_others);
