//! What the daemon does when things go wrong around it, on a real kernel.

use std::net::UdpSocket;
use std::path::Path;

use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::http;
use crate::support::node::{
    Node, SHOP, replace_program, touch_tables, wait_for_looks, with_restore,
};
use crate::support::rules::{Family, saved};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, on_both_backends};

/// With nothing to write, only a check would notice. A restart of the proxy cannot cure that, so
/// health turns red only with a sync that fails.
#[test]
fn a_check_that_fails_is_healthy_and_a_sync_that_fails_is_not() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let broken = node.manifests.path().join("broken");
    let calls = node.manifests.path().join(".calls");
    let script = format!(
        "echo >>{}\n[ ! -e {} ] || exit 3\nexec $REAL \"$@\"",
        calls.display(),
        broken.display()
    );
    let daemon = node.start(with_restore(Backend::Nft, &script));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    node.wait_for_health(200);
    std::fs::write(&broken, "").expect("write a file");
    touch_tables(&node);
    let all = r#""unreadableTables":["filter","nat","mangle"]"#;
    let shows_all = || {
        let (status, body) = http::get(&node.netns, Daemon::HEALTH, "/healthz").expect("an answer");
        assert_eq!(status, 200, "{body}");
        let status = http::get(&node.netns, Daemon::METRICS, "/status");
        status.expect("an answer").1.contains(all)
    };
    eventually(PATIENCE, || ensure(shows_all(), || daemon.log()));
    // More than twice the sync period, after which a failing sync would be unhealthy.
    wait_for_looks(&node, &calls, 4);
    assert!(shows_all());
    let log = daemon.log();
    assert_eq!(
        log.matches("check of the rules in this table failed")
            .count(),
        3,
        "{log}"
    );
    // Syncs that fail are unhealthy. They are no Service's fault, and the last good rules stay.
    node.write(&SHOP.replace("10.4.0.12", "10.4.0.13"));
    node.wait_for_health(503);
    let no_quarantine = "deltaproxy_quarantined_services{ip_family=\"IPv4\"} 0";
    assert!(node.metric(no_quarantine), "{}", daemon.log());
    assert!(node.rules().contains("10.4.0.12:8080"), "{}", node.rules());
    std::fs::remove_file(&broken).expect("remove a file");
    node.wait_for_health(200);
    node.wait_for_rule("--to-destination 10.4.0.13:8080");
    eventually(PATIENCE, || ensure(!shows_all(), || daemon.log()));
}

/// One that is put there just after it was looked for, when the other is there already.
#[test]
fn a_family_that_comes_between_two_looks_is_not_given_up() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let bin = backend_programs(Backend::Nft);
    let tried = bin.path().join("tried");
    let script = format!(
        "[ -e {tried} ] || {{ touch {tried}; exit 127; }}\nexec $REAL \"$@\"",
        tried = tried.display()
    );
    replace_program(&bin, Backend::Nft, "iptables", &script);
    let daemon = node.start(bin);
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    daemon.assert_logged("is not usable for IPv4; retrying once in");
}

#[test]
fn a_lock_that_is_held_at_the_start_costs_no_family() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let bin = backend_programs(Backend::Nft);
    let calls = bin.path().join("calls");
    let script = format!(
        "echo >>{calls}\n[ $(wc -l <{calls}) != 2 ] || {{ echo 'Another app is currently holding \
         the xtables lock.' >&2; exit 4; }}\nexec $REAL \"$@\"",
        calls = calls.display()
    );
    replace_program(&bin, Backend::Nft, "iptables", &script);
    let daemon = node.start(bin);
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    daemon.assert_logged("is not usable for IPv4; retrying in");
}

/// A first restore of IPv4 that takes its time; IPv6 has its rules meanwhile.
#[test]
fn no_family_waits_for_the_other() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let begun = node.manifests.path().join(".begun");
    let over = node.manifests.path().join(".over");
    let script = format!(
        "touch {}\nuntil [ -e {} ]; do sleep 0.1; done\nexec $REAL \"$@\"",
        begun.display(),
        over.display()
    );
    let _daemon = node.start(with_restore(Backend::Nft, &script));
    eventually(PATIENCE, || {
        let v6 = saved(&node.netns, node.backend, Family::V6);
        ensure(begun.exists() && v6.contains(":KUBE-POSTROUTING"), || v6)
    });
    assert!(!node.rules().contains("KUBE-"), "{}", node.rules());
    std::fs::write(&over, "").expect("write a file");
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
}

#[test]
fn a_restore_under_way_is_finished_before_the_end() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let begun = node.manifests.path().join("begun");
    let script = format!("touch {}\nsleep 1\nexec $REAL \"$@\"", begun.display());
    let mut daemon = node.start(with_restore(Backend::Nft, &script));
    eventually(PATIENCE, || {
        ensure(begun.exists(), || "no restore yet".to_owned())
    });
    let status = daemon.terminate();
    assert!(status.success(), "{status}");
    assert!(node.rules().contains("10.4.0.12:8080"), "{}", node.rules());
}

#[test]
fn a_restore_that_hangs_is_killed_with_the_process() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let pid = node.manifests.path().join(".pid");
    let script = format!("echo $$ >{}\nexec sleep 1000", pid.display());
    let mut daemon = node.start(with_restore(Backend::Nft, &script));
    let restore = eventually(PATIENCE, || {
        let text = std::fs::read_to_string(&pid).map_err(|error| error.to_string())?;
        text.trim()
            .parse::<u32>()
            .map_err(|error| error.to_string())
    });
    assert!(Path::new(&format!("/proc/{restore}")).exists());
    let status = daemon.terminate();
    assert!(status.success(), "{status}");
    daemon.assert_logged("killing it");
    eventually(PATIENCE, || {
        let is_gone = !Path::new(&format!("/proc/{restore}")).exists();
        ensure(is_gone, || format!("{restore} is still there"))
    });
}

/// The Service again, with a NodePort for datagrams: each sent is one packet.
const SHOP_ON_NODE_PORT: &str = "\
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  ports: [{name: dns, port: 53, protocol: UDP, nodePort: 30053}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-1, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
ports: [{name: dns, port: 8053, protocol: UDP}]
endpoints: [{addresses: [10.4.0.12]}]
";

/// The two counters of the kernel on the metrics page.
const INVALID: &str = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total";
const ON_LOCALHOST: &str = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total";

fn packets_are_counted_across_a_restart(backend: Backend) {
    let node = Node::new(backend);
    node.write(SHOP_ON_NODE_PORT);
    let mut first = node.start(backend_programs(backend));
    node.wait_for_rule("--to-destination 10.4.0.12:8053");
    let rules = node.rules();
    // The programs print two blanks between the option and the name.
    for counter in [
        " ct_state_invalid_dropped_pkts -j DROP",
        " localhost_nps_accepted_pkts -j KUBE-EXT-",
    ] {
        assert!(rules.contains(counter), "no `{counter}` in\n{rules}");
    }
    let count = |name: &str, count: u32| {
        let line = format!("{name} {count}");
        assert!(node.metric(&line), "no `{line}`");
    };
    count(INVALID, 0);
    count(ON_LOCALHOST, 0);
    node.netns.enter(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        // Where it would go from there, nothing is routed to.
        let _ = socket.send_to(b"?", "127.0.0.1:30053");
    });
    count(ON_LOCALHOST, 1);
    assert!(first.terminate().success());

    let _second = node.start(backend_programs(backend));
    eventually(PATIENCE, || {
        let is_synced = node.metric(
            "kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1",
        );
        ensure(is_synced, || "not synced".to_owned())
    });
    count(ON_LOCALHOST, 1);
}

on_both_backends!(Kernel, packets_are_counted_across_a_restart);

#[test]
fn without_the_match_rules_are_written_without_counters() {
    needs!(Kernel);
    let node = Node::new(Backend::Legacy);
    node.write(SHOP_ON_NODE_PORT);
    // As where the kernel has the counters and not the match.
    let script = "payload=$(cat)\n\
        case $payload in *nfacct*) echo 'iptables-restore: line 4 failed' >&2; exit 1;;\n\
        *) printf '%s\\n' \"$payload\" | $REAL \"$@\";; esac";
    let daemon = node.start(with_restore(Backend::Legacy, script));
    node.wait_for_rule("--to-destination 10.4.0.12:8053");
    node.write(&SHOP_ON_NODE_PORT.replace("10.4.0.12", "10.4.0.13"));
    node.wait_for_rule("--to-destination 10.4.0.13:8053");
    let rules = node.rules();
    assert!(
        !rules.contains("nfacct") && !rules.contains("NFACCT"),
        "{rules}"
    );
    let log = daemon.log();
    assert_eq!(log.matches("not counted").count(), 1, "{log}");
    assert!(!log.contains("restore failed"), "{log}");
}

/// On a machine where this process may not lower its score, both have 0 from the beginning.
#[test]
fn restores_are_killed_for_memory_before_the_proxy() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let scores = node.manifests.path().join(".scores");
    // The payload has been read, so that the score is written by then.
    let script = format!(
        "payload=$(cat)\ncat /proc/$$/oom_score_adj >>{}\nprintf '%s\\n' \"$payload\" | $REAL \"$@\"",
        scores.display()
    );
    let bin = with_restore(Backend::Nft, &script);
    let _daemon = node.start_with(bin, &["--oom-score-adj=-500"]);
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    let scores = std::fs::read_to_string(scores).expect("read a file");
    assert!(scores.lines().all(|score| score == "0"), "{scores}");
}
