//! Third-party rules that the iptables programs cannot print, beside ours in the built-in chains,
//! on a real kernel: the proxy stays healthy, writes no more than without them, and still notices
//! what it loses.

#![allow(clippy::expect_used, reason = "failing is a test's job")]

use crate::support;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use support::daemon::{Backend, Daemon, backend_programs, real_program};
use support::http;
use support::node::{
    Node, SHOP, copy_extensions, wait_for_looks, with_counted_restore, write_script,
};
use support::process::run;
use support::wait::{PATIENCE, ensure, eventually};
use support::{Need, machine_has};
use tempfile::TempDir;

/// Has an endpoint on this node, so that its health check is good.
const BALANCED: &str = "\
---
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.11
  externalTrafficPolicy: Local
  healthCheckNodePort: 32100
  ports: [{name: http, port: 80, nodePort: 30080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: balanced-1, labels: {kubernetes.io/service-name: balanced}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.4.0.15], nodeName: node1, conditions: {ready: true}}]
";

/// A third-party rule that is added and taken out again.
#[derive(Clone, Copy)]
enum Rule {
    /// With `nft`.
    Nft(&'static str),
    /// With iptables; the daemon's programs lack the extension.
    Dscp(&'static str),
}

/// The comment of the jumps that are taken out.
const OUTPUT_JUMP: &str = "kubernetes service portals";

#[test]
fn an_expression_behind_our_jumps_is_lived_with_on_nft() {
    is_lived_with(
        Backend::Nft,
        Rule::Nft("add rule ip filter FORWARD meta mark set 5"),
    );
}

#[test]
fn an_expression_before_our_jumps_is_lived_with_on_nft() {
    is_lived_with(
        Backend::Nft,
        Rule::Nft("insert rule ip filter FORWARD meta mark set tcp dport map { 7: 1, 8: 2 }"),
    );
}

#[test]
fn an_incompatible_chain_is_lived_with_on_nft() {
    is_lived_with(
        Backend::Nft,
        Rule::Nft("insert rule ip nat OUTPUT ct state related accept"),
    );
}

#[test]
fn a_missing_extension_is_lived_with_on_nft() {
    is_lived_with(Backend::Nft, Rule::Dscp("-I"));
}

#[test]
fn a_missing_extension_behind_our_jumps_is_lived_with_on_legacy() {
    is_lived_with(Backend::Legacy, Rule::Dscp("-A"));
}

#[test]
fn a_missing_extension_before_our_jumps_is_lived_with_on_legacy() {
    is_lived_with(Backend::Legacy, Rule::Dscp("-I"));
}

/// While it runs, and through a restart.
fn is_lived_with(backend: Backend, rule: Rule) {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(backend);
    node.write(&(SHOP.to_owned() + BALANCED));
    let calls = node.manifests.path().join(".calls");
    let mut daemon = node.start(programs(backend, rule, &calls));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    node.wait_for_health(200);
    add(&node, rule);
    let (table, chain) = rule.place();
    let unreadable =
        format!("deltaproxy_unreadable_tables{{ip_family=\"IPv4\",table=\"{table}\"}}");
    eventually(PATIENCE, || {
        ensure(node.metric(&format!("{unreadable} 1")), || daemon.log())
    });
    // More than twice the sync period, after which a proxy that fails is unhealthy.
    wait_for_looks(&node, &calls, 4);
    assert_healthy(&node, &format!(r#""unreadableTables":["{table}"]"#));
    let log = daemon.log();
    assert_eq!(log.matches("cannot print all rules").count(), 2, "{log}");
    assert!(!log.contains("rules were flushed"), "{log}");
    let syncs = r#"deltaproxy_full_syncs_total{ip_family="IPv4",reason="flushed"} 0"#;
    assert!(node.metric(syncs), "{log}");

    // A loss is noticed, beside the rule and elsewhere.
    for (table, chain) in [(table, chain), ("nat", "PREROUTING")] {
        lose_jump(&node, table, chain);
        eventually(PATIENCE, || {
            let jumps = jumps(&node, table, chain);
            ensure(jumps == 1, || format!("{jumps} jumps\n{}", daemon.log()))
        });
    }

    // Nothing depends on what is known from before.
    assert!(daemon.terminate().success());
    node.write(&(SHOP.replace("10.4.0.12", "10.4.0.13") + BALANCED));
    let second = node.start(programs(backend, rule, &calls));
    eventually(PATIENCE, || {
        let page = http::get(&node.netns, Daemon::METRICS, "/metrics")?.1;
        let once = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}";
        ensure(page.contains(once), || second.log())
    });
    wait_for_looks(&node, &calls, 4);
    assert_healthy(&node, "unreadableTables");
    let log = second.log();
    for wrong in [
        "restore failed",
        "rules were flushed",
        "reading the rules in the kernel",
    ] {
        assert!(!log.contains(wrong), "{wrong}: {log}");
    }
    assert_eq!(jumps(&node, table, chain), 1, "{log}");
    remove(&node, rule);
    node.wait_for_rule("--to-destination 10.4.0.13:8080");
    eventually(PATIENCE, || {
        ensure(node.metric(&format!("{unreadable} 0")), || second.log())
    });
    assert!(
        second.log().contains("table is readable again"),
        "{}",
        second.log()
    );
}

impl Rule {
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Nft(rule) if rule.contains(" nat ") => ("nat", "OUTPUT"),
            Self::Nft(_) | Self::Dscp(_) => ("filter", "FORWARD"),
        }
    }
}

fn add(node: &Node, rule: Rule) {
    match rule {
        Rule::Nft(rule) => drop(run(node.netns.command("nft").arg(rule))),
        Rule::Dscp(place) => node.iptables(&dscp(place)),
    }
}

fn remove(node: &Node, rule: Rule) {
    match rule {
        Rule::Nft(_) => {
            let (table, chain) = rule.place();
            let listed = run(node
                .netns
                .command("nft")
                .args(["-a", "list", "chain", "ip", table, chain]));
            let foreign =
                |line: &&str| line.contains("mark set") || line.contains("ct state related accept");
            let line = listed.lines().find(foreign).expect("the rule");
            let handle = line.rsplit(' ').next().expect("a handle");
            let delete = ["delete", "rule", "ip", table, chain, "handle", handle];
            run(node.netns.command("nft").args(delete));
        }
        Rule::Dscp(_) => node.iptables(&dscp("-D")),
    }
}

fn dscp(place: &str) -> [&str; 8] {
    [
        place, "FORWARD", "-m", "dscp", "--dscp", "3", "-j", "ACCEPT",
    ]
}

/// The programs, each run of the restore program counted. They lack an extension if the rule needs
/// one.
fn programs(backend: Backend, rule: Rule, calls: &Path) -> TempDir {
    let bin = with_counted_restore(backend, calls);
    if matches!(rule, Rule::Nft(_)) {
        return bin;
    }
    let extensions = bin.path().join("extensions");
    fs::create_dir(&extensions).expect("make a folder");
    copy_extensions(&extensions, "libxt_dscp.so");
    for family in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            let name = format!("{family}{suffix}");
            let path = bin.path().join(&name);
            let count = if name == "iptables-restore" {
                format!("echo >>{}\n", calls.display())
            } else {
                String::new()
            };
            fs::remove_file(&path).expect("remove a link");
            let script = format!(
                "{count}XTABLES_LIBDIR={} exec $REAL \"$@\"",
                extensions.display()
            );
            write_script(&path, &real_program(backend, &name), &script);
        }
    }
    bin
}

/// All three kinds of pages, and what they say of the tables.
#[track_caller]
fn assert_healthy(node: &Node, detail: &str) {
    let check = SocketAddr::from(([127, 0, 0, 1], 32100));
    for (address, path) in [
        (Daemon::HEALTH, "/livez"),
        (Daemon::HEALTH, "/healthz"),
        (check, "/"),
    ] {
        let (status, body) = http::get(&node.netns, address, path).expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
        if address == Daemon::HEALTH {
            assert!(body.contains(detail), "no {detail}: {body}");
        }
    }
}

/// Takes the last of our jumps out of a built-in chain, as only the kernel's own program can beside
/// a rule that the others cannot print.
fn lose_jump(node: &Node, table: &str, chain: &str) {
    match node.backend {
        Backend::Nft => {
            let listed = run(node
                .netns
                .command("nft")
                .args(["-a", "list", "chain", "ip", table, chain]));
            let line = listed
                .lines()
                .find(|line| line.contains("jump KUBE-SERVICES"))
                .expect("a jump");
            let handle = line.rsplit(' ').next().expect("a handle");
            let delete = ["delete", "rule", "ip", table, chain, "handle", handle];
            run(node.netns.command("nft").args(delete));
        }
        Backend::Legacy => {
            let mut words = vec!["-t", table, "-D", chain];
            if table == "filter" {
                words.extend(["-m", "conntrack", "--ctstate", "NEW"]);
            }
            words.extend([
                "-m",
                "comment",
                "--comment",
                OUTPUT_JUMP,
                "-j",
                "KUBE-SERVICES",
            ]);
            node.iptables(&words);
        }
    }
}

/// Jumps from a built-in chain to `KUBE-SERVICES`.
fn jumps(node: &Node, table: &str, chain: &str) -> usize {
    let text = match node.backend {
        Backend::Nft => run(node
            .netns
            .command("nft")
            .args(["list", "chain", "ip", table, chain])),
        Backend::Legacy => {
            let mut command = node.netns.command(real_program(node.backend, "iptables"));
            run(command.args(["-w", "-t", table, "-S", chain]))
        }
    };
    let lines = text.lines().filter(|line| line.contains("KUBE-SERVICES"));
    lines.count()
}

/// A chain of our own with such a rule: it is written anew, however often the rule is put back, and
/// nothing else is.
#[test]
fn an_expression_in_a_fixed_chain_costs_that_chain() {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(Backend::Nft);
    let daemon = node.start(backend_programs(Backend::Nft));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    for expression in ["meta mark set 5", "ct state established,related accept"] {
        let rule = format!("insert rule ip nat KUBE-POSTROUTING {expression}");
        run(node.netns.command("nft").arg(rule));
        eventually(PATIENCE, || {
            let chain = ["list", "chain", "ip", "nat", "KUBE-POSTROUTING"];
            let listed = run(node.netns.command("nft").args(chain));
            let is_clean = !listed.contains("0x00000005") && !listed.contains("established");
            ensure(is_clean, || format!("{listed}\n{}", daemon.log()))
        });
    }
    let unflushed = r#"deltaproxy_full_syncs_total{ip_family="IPv4",reason="flushed"} 0"#;
    assert!(node.metric(unflushed), "{}", daemon.log());
    assert!(
        !daemon.log().contains("rules were flushed"),
        "{}",
        daemon.log()
    );
    node.wait_for_health(200);
}

/// A payload of many chains begins with a listing of `nat` where that makes it faster. It does not
/// while that table cannot be printed.
#[test]
fn many_services_beside_such_a_rule_take_no_full_restore() {
    if !machine_has(Need::Kernel) {
        return;
    }
    let node = Node::new(Backend::Nft);
    let daemon = node.start(backend_programs(Backend::Nft));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    add(
        &node,
        Rule::Nft("insert rule ip nat OUTPUT meta mark set 5"),
    );
    let unreadable = "deltaproxy_unreadable_tables{ip_family=\"IPv4\",table=\"nat\"} 1";
    eventually(PATIENCE, || {
        ensure(node.metric(unreadable), || daemon.log())
    });
    let numbers = 1..=250;
    let many: String = numbers
        .map(|number| BALANCED_ONCE.replace("NUMBER", &number.to_string()))
        .collect();
    node.write(&(SHOP.to_owned() + &many));
    eventually(PATIENCE, || {
        let listed = run(node
            .netns
            .command("nft")
            .args(["list", "table", "ip", "nat"]));
        ensure(listed.contains("10.4.9.250"), || daemon.log())
    });
    let log = daemon.log();
    assert!(!log.contains("restore failed"), "{log}");
}

const BALANCED_ONCE: &str = "\
---
apiVersion: v1
kind: Service
metadata: {name: many-NUMBER}
spec: {clusterIP: 10.96.9.NUMBER, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: many-NUMBER-1, labels: {kubernetes.io/service-name: many-NUMBER}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.4.9.NUMBER]}]
";
