//! Third-party rules that the iptables programs cannot print, on a real kernel: the proxy stays
//! healthy, writes no more than without them, and still notices what it loses, also when it starts.
//!
//! One such rule makes `iptables-nft-save` print nothing of a table, or fail.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use crate::support::daemon::{Backend, Daemon, backend_programs, real_program};
use crate::support::http;
use crate::support::node::{
    Node, SHOP, copy_extensions, replace_program, wait_for_looks, with_counted_restore,
};
use crate::support::process::run;
use crate::support::rules::endpoint_chain;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, objects, on_both_backends};
use serde_json::{Value, json};

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

/// Rules in the order in which they are added and removed: the backend, the table, a chain that
/// loses a jump meanwhile, and the rule. Rules of iptables need an extension that the daemon's
/// programs lack.
const RULES: &str = "\
nft    | filter | FORWARD | nft insert rule ip filter INPUT ct state established,related accept
nft    | nat    | OUTPUT  | nft insert rule ip nat POSTROUTING ct state established,related accept
nft    | filter | FORWARD | nft add rule ip filter FORWARD meta mark set 5
nft    | filter | FORWARD | nft insert rule ip filter FORWARD meta mark set tcp dport map { 7: 1, 8: 2 }
nft    | nat    | OUTPUT  | nft insert rule ip nat OUTPUT ct state related accept
nft    | filter | FORWARD | iptables -I FORWARD -m dscp --dscp 3 -j ACCEPT
legacy | filter | FORWARD | iptables -I FORWARD -m dscp --dscp 3 -j ACCEPT
legacy | filter | FORWARD | iptables -A FORWARD -m dscp --dscp 3 -j ACCEPT
";

/// Saving the nat table fails with status 3.
const MAP_IN_NAT: &str =
    "table ip nat { chain custom { meta mark set tcp dport map { 7: 1, 8: 2 }; }; }";

/// Messages about failures and losses, of which there are none.
const FAILURES: [&str; 3] = [
    "restore failed",
    "rules were flushed",
    "reading the rules in the kernel",
];

/// The comment of the jumps that are taken out.
const OUTPUT_JUMP: &str = "kubernetes service portals";

struct Rule {
    table: &'static str,
    /// Loses a jump.
    chain: &'static str,
    command: Vec<&'static str>,
}

impl Rule {
    /// Reads a line of the table; `None`: not on this backend.
    fn parse(line: &'static str, backend: Backend) -> Option<Self> {
        let mut columns = line.split('|').map(str::trim);
        let mut next = || columns.next().expect("four columns");
        let (on, table, chain, command) = (next(), next(), next(), next());
        (on == backend.name()).then(|| Self {
            table,
            chain,
            command: command.split(' ').collect(),
        })
    }

    fn add(&self, node: &Node) {
        match &self.command[..] {
            ["nft", args @ ..] => drop(run(node.netns.command("nft").args(args))),
            [_, args @ ..] => node.iptables(args),
            [] => {}
        }
    }

    fn remove(&self, node: &Node) {
        match &self.command[..] {
            ["nft", _, _, family, table, chain, ..] => {
                let place = [*family, *table, *chain];
                delete(node, place, |line| {
                    line.contains("mark set") || line.contains("related accept")
                });
            }
            [_, _, args @ ..] => node.iptables(&[&["-D"], args].concat()),
            _ => {}
        }
    }
}

/// Deletes the first rule of a chain whose line is like this.
fn delete(node: &Node, [family, table, chain]: [&str; 3], is_it: impl Fn(&str) -> bool) {
    let list = ["-a", "list", "chain", family, table, chain];
    let listed = run(node.netns.command("nft").args(list));
    let line = listed.lines().find(|line| is_it(line)).expect("the rule");
    let handle = line.rsplit(' ').next().expect("a handle");
    let delete = ["delete", "rule", family, table, chain, "handle", handle];
    run(node.netns.command("nft").args(delete));
}

fn shop(last: usize) -> String {
    SHOP.replace("10.4.0.12", &format!("10.4.0.{last}")) + BALANCED
}

/// While the daemon runs, and through a restart with each of them.
fn unprintable_rules_hinder_nothing(backend: Backend) {
    let node = Node::new(backend);
    let calls = node.manifests.path().join(".calls");
    node.write(&shop(12));
    let mut daemon = node.start(programs(backend, &calls));
    node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
    node.wait_for_health(200);
    let rules = RULES.lines().filter_map(|line| Rule::parse(line, backend));
    for (last, rule) in (13..).zip(rules) {
        let from = daemon.log().len();
        rule.add(&node);
        stays_healthy(&node, &daemon, &calls, &rule);
        let log = &daemon.log()[from..];
        let warns = log
            .lines()
            .filter(|line| line.contains("cannot print all rules"));
        assert_eq!(warns.count(), 1, "{log}");
        for place in [(rule.table, rule.chain), ("nat", "PREROUTING")] {
            lose_jump(&node, place);
            eventually(PATIENCE, || {
                let jumps = jumps(&node, place);
                ensure(jumps == 1, || format!("{jumps} jumps\n{}", daemon.log()))
            });
        }

        // Nothing depends on what is known from before.
        assert!(daemon.terminate().success());
        node.write(&shop(last));
        daemon = node.start(programs(backend, &calls));
        eventually(PATIENCE, || {
            let once = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}";
            ensure(node.metrics().contains(once), || daemon.log())
        });
        stays_healthy(&node, &daemon, &calls, &rule);
        assert_eq!(jumps(&node, (rule.table, rule.chain)), 1);
        rule.remove(&node);
        node.wait_for_rule(&format!("--to-destination 10.4.0.{last}:8080"));
        eventually(PATIENCE, || {
            let is_readable = node.metric(&format!("{} 0", unreadable(rule.table)));
            let is_reported = daemon.log().contains("table is readable again");
            ensure(is_readable && is_reported, || daemon.log())
        });
    }
}

on_both_backends!(Kernel, unprintable_rules_hinder_nothing);

fn unreadable(table: &str) -> String {
    format!("deltaproxy_unreadable_tables{{ip_family=\"IPv4\",table=\"{table}\"}}")
}

/// The table counts as unreadable, and that is all.
#[track_caller]
fn stays_healthy(node: &Node, daemon: &Daemon, calls: &Path, rule: &Rule) {
    wait_for_looks(node, calls, 3);
    eventually(PATIENCE, || {
        let is_unreadable = node.metric(&format!("{} 1", unreadable(rule.table)));
        ensure(is_unreadable, || daemon.log())
    });
    assert_healthy(node);
    let (_, status) = http::get(&node.netns, Daemon::METRICS, "/status").expect("an answer");
    let named = format!(r#""unreadableTables":["{}"]"#, rule.table);
    assert!(status.contains(&named), "no {named}: {status}");
    let log = daemon.log();
    for wrong in FAILURES {
        assert!(!log.contains(wrong), "{:?}: {wrong}: {log}", rule.command);
    }
    let syncs = r#"deltaproxy_full_syncs_total{ip_family="IPv4",reason="flushed"} 0"#;
    assert!(node.metric(syncs), "{log}");
}

/// The first start on a node, and starts with the rules of the one before.
#[test]
fn a_map_that_is_there_first_hinders_no_start() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    run(node.netns.command("nft").arg(MAP_IN_NAT));
    let calls = node.manifests.path().join(".calls");
    for last in [11, 12, 13] {
        node.write(&SHOP.replace("10.4.0.12", &format!("10.4.0.{last}")));
        let mut daemon = node.start(with_counted_restore(Backend::Nft, &calls));
        let endpoint = endpoint_chain("default/shop:http", "tcp", &format!("10.4.0.{last}:8080"));
        eventually(PATIENCE, || {
            let listed = listed(&node, "nat");
            ensure(listed.contains(&format!("jump {endpoint}")), || listed)
        });
        assert_eq!(all_jumps(&node), (11, 3), "{}", daemon.log());
        wait_for_looks(&node, &calls, 5);
        assert_eq!(all_jumps(&node), (11, 3), "{}", daemon.log());
        let log = daemon.log();
        assert_eq!(log.matches("stale chains stay").count(), 1, "{log}");
        for wrong in FAILURES {
            assert!(!log.contains(wrong), "{wrong}: {log}");
        }
        let once = "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1";
        assert!(node.metric(once), "not one full sync: {log}");
        assert!(daemon.terminate().success());
    }
}

/// kube-proxy's jumps from built-in chains, 11 of filter and 3 of nat.
fn all_jumps(node: &Node) -> (usize, usize) {
    let count = |table| {
        let (listed, mut is_built_in) = (listed(node, table), false);
        let lines = listed.lines().map(str::trim).filter(|line| {
            if let Some(chain) = line.strip_prefix("chain ") {
                is_built_in = !chain.starts_with("KUBE-");
            }
            is_built_in && line.contains("jump KUBE-")
        });
        lines.count()
    };
    (count("filter"), count("nat"))
}

/// A table as `nft` prints it; nothing, as long as there is no such table.
fn listed(node: &Node, table: &str) -> String {
    let mut command = node.netns.command("nft");
    let output = command.args(["list", "table", "ip", table]).output();
    String::from_utf8_lossy(&output.expect("run nft").stdout).into_owned()
}

/// The programs without an extension, each run of the restore program counted.
fn programs(backend: Backend, calls: &Path) -> TempDir {
    let bin = with_counted_restore(backend, calls);
    let extensions = bin.path().join("extensions");
    fs::create_dir(&extensions).expect("make a folder");
    copy_extensions(&extensions, "libxt_dscp.so");
    for family in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            let name = format!("{family}{suffix}");
            let count = if name == "iptables-restore" {
                format!("echo >>{}\n", calls.display())
            } else {
                String::new()
            };
            let script = format!(
                "{count}XTABLES_LIBDIR={} exec $REAL \"$@\"",
                extensions.display()
            );
            replace_program(&bin, backend, &name, &script);
        }
    }
    bin
}

/// All three kinds of pages are good.
#[track_caller]
fn assert_healthy(node: &Node) {
    let check = SocketAddr::from(([127, 0, 0, 1], 32100));
    for (address, path) in [
        (Daemon::HEALTH, "/livez"),
        (Daemon::HEALTH, "/healthz"),
        (check, "/"),
    ] {
        let (status, body) = http::get(&node.netns, address, path).expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
    }
}

/// Takes the jump to `KUBE-SERVICES` out of a built-in chain, as only the kernel's own program can
/// next to a rule that the others cannot print.
fn lose_jump(node: &Node, (table, chain): (&str, &str)) {
    match node.backend {
        Backend::Nft => delete(node, ["ip", table, chain], |line| {
            line.contains("jump KUBE-SERVICES")
        }),
        Backend::Legacy => {
            let state = ["-m", "conntrack", "--ctstate", "NEW"];
            let comment = ["-m", "comment", "--comment", OUTPUT_JUMP];
            let state = if table == "filter" { &state[..] } else { &[] };
            let delete = ["-t", table, "-D", chain];
            node.iptables(&[&delete, state, &comment, &["-j", "KUBE-SERVICES"]].concat());
        }
    }
}

/// Jumps from a built-in chain to `KUBE-SERVICES`.
fn jumps(node: &Node, (table, chain): (&str, &str)) -> usize {
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

/// A payload of many chains begins with a listing of `nat` where that makes it faster. It does not
/// while that table cannot be printed.
#[test]
fn many_services_beside_such_a_rule_take_no_full_restore() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let daemon = node.start(backend_programs(Backend::Nft));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    let rule = "insert rule ip nat OUTPUT meta mark set 5";
    run(node.netns.command("nft").arg(rule));
    eventually(PATIENCE, || {
        ensure(node.metric(&format!("{} 1", unreadable("nat"))), || {
            daemon.log()
        })
    });
    let many = (1..=250).flat_map(|number| {
        let spec = json!({"clusterIP": format!("10.96.9.{number}")});
        let service = objects::service(&format!("many-{number}"), spec);
        let slice = objects::slice(&service, &[&format!("10.4.9.{number}")]);
        [service, slice]
    });
    let many: Vec<Value> = many.collect();
    fs::write(
        node.manifests.path().join("many.json"),
        objects::manifest(&many),
    )
    .unwrap();
    eventually(PATIENCE, || {
        let listed = listed(&node, "nat");
        ensure(listed.contains("10.4.9.250"), || daemon.log())
    });
    let log = daemon.log();
    assert!(!log.contains("restore failed"), "{log}");
}
