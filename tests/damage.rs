//! Rules that other programs change, on a real kernel: a table of damages, with the restore that
//! repairs each and what the log names. One daemon on each backend repairs all of it.

use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::http;
use crate::support::node::{Node, SHOP, wait_for_looks, with_counted_restore};
use crate::support::on_both_backends;
use crate::support::process::run;
use crate::support::rules::{endpoint_chain, service_chain};
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::survival::scene::{nothing_is_left, open_files, ours};

/// Damages in the order in which they are done: the command, the backend, the repair, and what the
/// log names.
///
/// A command is of `iptables -t`, `nft`, or `reload TABLE...`, which replaces tables as a firewall
/// does. `ENDPOINT` and `SERVICE` are chains of the Service. A repair is a full restore, or a
/// partial one that writes so many chains besides fixed ones.
const DAMAGES: &str = "\
iptables nat -F ENDPOINT                                     | both | 1    | changed nat ENDPOINT
iptables nat -D SERVICE 1                                    | both | 1    | changed nat SERVICE
iptables nat -D KUBE-SERVICES 1                              | both | 1    | changed nat KUBE-SERVICES
iptables nat -D ENDPOINT 2                                   | both | 1    | changed nat ENDPOINT
iptables nat -I SERVICE -s 10.9.9.9/32 -j ACCEPT             | both | 1    | changed nat SERVICE
iptables nat -D PREROUTING 2                                 | both | 0    | changed nat PREROUTING
iptables nat -F KUBE-MARK-MASQ                               | both | 0    | changed nat KUBE-MARK-MASQ
iptables nat -D KUBE-SERVICES 2                              | both | 1    | changed nat KUBE-SERVICES
iptables filter -D FORWARD 2                                 | both | 0    | changed filter FORWARD
iptables nat -R ENDPOINT 1 -s 10.4.0.99 -j KUBE-MARK-MASQ    | both | 1    | changed nat ENDPOINT
iptables filter -F KUBE-FORWARD                              | both | 0    | changed filter KUBE-FORWARD
iptables filter -F KUBE-FIREWALL                             | both | 0    | changed filter KUBE-FIREWALL
iptables nat -D KUBE-POSTROUTING 1                           | both | 0    | changed nat KUBE-POSTROUTING
iptables nat -A KUBE-SERVICES -s 10.9.9.9/32 -j ACCEPT       | both | 1    | changed nat KUBE-SERVICES
iptables nat -R KUBE-MARK-MASQ 1 -j MARK --set-xmark 0x1/0x1 | nft  | 0    | changed nat KUBE-MARK-MASQ
iptables filter -D KUBE-FORWARD 1                            | both | 0    | changed filter KUBE-FORWARD
iptables filter -I KUBE-FIREWALL -s 10.9.9.9 -j RETURN       | both | 0    | added filter KUBE-FIREWALL
iptables nat -I KUBE-SERVICES -j ACCEPT                      | both | 1    | changed nat KUBE-SERVICES
iptables nat -I KUBE-POSTROUTING -s 10.9.9.9 -j ACCEPT       | both | 0    | added nat KUBE-POSTROUTING
iptables filter -A KUBE-FORWARD -j ACCEPT                    | both | 0    | added filter KUBE-FORWARD
nft insert rule ip nat KUBE-MARK-MASQ meta mark set 5        | nft  | 0    | added nat KUBE-MARK-MASQ
nft insert rule ip nat SERVICE ct state established accept   | nft  | 1    | changed nat SERVICE
iptables nat -F KUBE-SERVICES                                | both | 1    | changed nat KUBE-SERVICES
iptables nat -F OUTPUT                                       | both | 0    | changed nat OUTPUT
reload nat                                                   | both | full | flushed nat
reload filter                                                | both | full | flushed filter
reload mangle                                                | both | full | flushed mangle
iptables nat -F                                              | both | full | flushed nat
iptables filter -F                                           | both | full | flushed filter
reload mangle filter nat                                     | both | full | flushed
nft flush ruleset                                            | nft  | full | flushed
";

/// Chains of a kubelet, and of a network plugin.
const THIRD_PARTY: &str = "\
*mangle
:KUBE-KUBELET-CANARY -
COMMIT
*nat
:KUBE-MARK-DROP -
:KUBE-KUBELET-CANARY -
:CNI-1 -
-A KUBE-MARK-DROP -j MARK --or-mark 0x8000
COMMIT
";

/// Rules that the plugin adds while the daemon runs.
const PLUGIN: &str = "\
*nat
-A CNI-1 -s 10.8.8.8/32 -j KUBE-MARK-MASQ
-I PREROUTING -j CNI-1
-A POSTROUTING -s 10.8.8.8/32 -j MASQUERADE
COMMIT
";

/// Texts of lines that are not of the proxy.
const OF_OTHERS: [&str; 4] = ["KUBE-KUBELET-CANARY", "KUBE-MARK-DROP", "CNI-1", "10.8.8.8"];

/// No damage is found by the check of each period.
const FLAGS: [&str; 3] = [
    "--iptables-sync-period=10m",
    "--iptables-min-sync-period=10ms",
    "-v=2",
];

const FULL: &str = r#"kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}"#;
const FLUSHED: &str = r#"deltaproxy_full_syncs_total{ip_family="IPv4",reason="flushed"}"#;
const VERIFIED: &str = r#"deltaproxy_rules_verified{ip_family="IPv4"}"#;

/// Last byte of the address of the endpoint that moves, in both states of the Service.
const STATES: [u8; 2] = [12, 13];

#[derive(Debug)]
enum Repair {
    Full,
    /// A partial restore of so many chains.
    Partial(usize),
}

#[derive(Debug)]
struct Damage {
    command: Vec<String>,
    repair: Repair,
    /// What happened to a chain or table, as the first word of `named`.
    kind: String,
    /// Text of the line of the log that reports it.
    named: String,
}

impl Damage {
    /// Reads a line of the table; `None`: not on this backend.
    fn parse(line: &str, backend: Backend, endpoint: u8) -> Option<Self> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [command, on, repair, report] = columns[..] else {
            panic!("not four columns: {line}");
        };
        let address = format!("10.4.0.{endpoint}:8080");
        let name = |text: &str| {
            let service_port = "default/shop:http";
            let endpoint = endpoint_chain(service_port, "tcp", &address);
            let service = service_chain("KUBE-SVC-", service_port, "tcp");
            text.replace("ENDPOINT", &endpoint)
                .replace("SERVICE ", &format!("{service} "))
        };
        let (kind, place) = report.split_once(' ').unwrap_or((report, ""));
        let place = name(&format!("{place} "));
        let named = match (kind, place.trim().split_once(' ')) {
            ("added", Some((table, chain))) => format!("table={table} chain=\"{chain}\""),
            ("flushed", _) => format!("table={}", place.trim()),
            _ => place.trim().to_owned(),
        };
        (on == "both" || on == backend.name()).then(|| Self {
            command: name(command).split(' ').map(str::to_owned).collect(),
            repair: repair.parse().map_or(Repair::Full, Repair::Partial),
            kind: kind.to_owned(),
            named,
        })
    }

    fn cause(&self, node: &Node) {
        let words: Vec<&str> = self.command.iter().map(String::as_str).collect();
        match words[..] {
            ["iptables", table, ref args @ ..] => node.iptables(&[&["-t", table], args].concat()),
            ["nft", ref args @ ..] => drop(run(node.netns.command("nft").args(args))),
            ["reload", ref tables @ ..] => {
                let text = tables.iter().map(|table| format!("*{table}\nCOMMIT\n"));
                node.replace_tables(&text.collect::<String>());
            }
            _ => panic!("{self:?}"),
        }
    }
}

/// A daemon whose rules are damaged.
struct Scene {
    node: Node,
    daemon: Daemon,
    /// Index of the current one of [`STATES`].
    state: usize,
    /// Rules of the proxy in each state.
    rules: [Vec<String>; 2],
    /// Third-party rules.
    others: Vec<String>,
}

/// Rules of the proxy, and third-party rules.
fn rules(node: &Node) -> (Vec<String>, Vec<String>) {
    let is_ours = |line: &String| !OF_OTHERS.iter().any(|text| line.contains(text));
    ours(node).into_iter().partition(is_ours)
}

fn shop(state: usize) -> String {
    SHOP.replace("10.4.0.12", &format!("10.4.0.{}", STATES[state]))
}

impl Scene {
    fn new(backend: Backend) -> Self {
        let node = Node::new(backend);
        node.restore(THIRD_PARTY);
        let daemon = node.start_with(backend_programs(backend), &FLAGS);
        node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
        node.restore(PLUGIN);
        let both = [1, 0].map(|state| {
            node.write(&shop(state));
            node.wait_for_full_restore(&format!("--to-destination 10.4.0.{}:8080", STATES[state]));
            rules(&node)
        });
        let [(moved, others), (first, same)] = both;
        assert_eq!(others, same);
        assert_eq!(others.len(), 7, "{others:#?}");
        Self {
            node,
            daemon,
            state: 0,
            rules: [first, moved],
            others,
        }
    }

    /// Lines of the log from this byte on that are about the family of the damages.
    fn lines(&self, from: usize, text: &str) -> Vec<String> {
        let log = self.daemon.log();
        let lines = log[from..].lines();
        lines
            .filter(|line| line.contains("family=IPv4") && line.contains(text))
            .map(str::to_owned)
            .collect()
    }

    fn metric(&self, name: &str) -> u64 {
        http::count(&self.node.metrics(), name)
    }

    /// Damages the rules, and checks how they are repaired and what is reported.
    fn repairs(&mut self, damage: &Damage) {
        let message = match damage.kind.as_str() {
            // Or changed again: a chain that is damaged often is repaired later.
            "changed" => "by another program; restoring them",
            "added" => "third-party rules found in a kube-proxy chain",
            _ => "rules were flushed or deleted by another program",
        };
        let (from, full) = (self.daemon.log().len(), self.metric(FULL));
        damage.cause(&self.node);
        if matches!(damage.repair, Repair::Full) {
            self.others.clear();
        }
        // Until then iptables may be unable to print the table.
        eventually(PATIENCE, || {
            let reports = self.lines(from, message);
            let is_named = reports.iter().any(|line| line.contains(&damage.named));
            // The metric follows the first line about the damage.
            let is_repaired = matches!(damage.repair, Repair::Full)
                || !self.lines(from, "repair complete").is_empty();
            let is_verified = self.metric(VERIFIED) == 1;
            ensure(is_named && is_repaired && is_verified, || {
                format!("{damage:?}: {}", &self.daemon.log()[from..])
            })
        });
        eventually(PATIENCE, || {
            let (rules, others) = rules(&self.node);
            let is_repaired = rules == self.rules[self.state]
                && (others == self.others || self.others.is_empty());
            ensure(is_repaired, || {
                format!("{damage:?}: {rules:#?}\n{}", self.daemon.log())
            })
        });
        let log = &self.daemon.log()[from..];
        let synced = self.lines(from, "synced");
        match damage.repair {
            Repair::Full => assert!(self.metric(FULL) > full, "{damage:?}: {log}"),
            Repair::Partial(chains) => {
                let count = |line: &String| {
                    let (_, rest) = line.split_once(" chains=").expect("a number of chains");
                    let number = rest.split(' ').next().expect("a number");
                    number.parse::<usize>().expect("a number")
                };
                let written: usize = synced.iter().map(count).sum();
                assert_eq!(written, chains, "{damage:?}: {log}");
                assert_eq!(self.metric(FULL), full, "{damage:?}: {log}");
                assert_eq!(self.lines(from, message).len(), 1, "{damage:?}: {log}");
            }
        }
    }

    /// Moves the endpoint, which writes what it writes without damage before. On legacy, damage
    /// during the sync is found in the next period.
    fn change(&mut self) {
        let from = self.daemon.log().len();
        self.state = 1 - self.state;
        self.node.write(&shop(self.state));
        self.wait_for_rules();
        eventually(PATIENCE, || {
            let synced = self.lines(from, "synced");
            ensure(synced.len() == 1, || format!("{synced:?}"))
        });
    }

    fn wait_for_rules(&self) {
        eventually(PATIENCE, || {
            let (rules, _) = rules(&self.node);
            ensure(rules == self.rules[self.state], || {
                format!("{rules:#?}\n{}", self.daemon.log())
            })
        });
    }

    fn restart(&mut self, meanwhile: impl FnOnce(&Node)) {
        assert!(self.daemon.terminate().success());
        meanwhile(&self.node);
        let bin = backend_programs(self.node.backend);
        self.daemon = self.node.start_with(bin, &FLAGS);
        eventually(PATIENCE, || {
            let log = self.daemon.log();
            let ends = ["nothing to write", "scope=\"adoption\"", "scope=\"full\""];
            let count: usize = ends.iter().map(|end| log.matches(end).count()).sum();
            ensure(count == 2, || log)
        });
        self.wait_for_rules();
    }
}

fn damages_are_repaired(backend: Backend) {
    let mut scene = Scene::new(backend);
    // The first request opens a file that stays open.
    scene.metric(FULL);
    let files = open_files(scene.daemon.id());
    let (mut added, mut flushed) = (0, 0);
    for line in DAMAGES.lines() {
        let Some(damage) = Damage::parse(line, backend, STATES[scene.state]) else {
            continue;
        };
        scene.repairs(&damage);
        scene.change();
        added += u64::from(damage.kind == "added");
        flushed += u64::from(damage.kind == "flushed");
    }
    let log = scene.daemon.log();
    assert!(!log.contains("restore failed"), "{log}");
    let repaired = ["nat", "filter"].map(|table| {
        let repairs = "deltaproxy_chain_repairs_total";
        scene.metric(&format!(
            "{repairs}{{ip_family=\"IPv4\",table=\"{table}\"}}"
        ))
    });
    assert_eq!(repaired.iter().sum::<u64>(), added, "{log}");
    assert!(scene.metric(FLUSHED) >= flushed, "{log}");
    nothing_is_left(scene.daemon.id(), files, "damage");

    scene.restart(|_| ());
    let log = scene.daemon.log();
    assert_eq!(log.matches("adopted: nothing to write").count(), 2, "{log}");

    // A start writes the chains that are wrong, and nothing else.
    let endpoint = format!("10.4.0.{}:8080", STATES[scene.state]);
    let chain = endpoint_chain("default/shop:http", "tcp", &endpoint);
    scene.restart(|node| {
        node.iptables(&["-t", "nat", "-F", &chain]);
        node.iptables(&["-t", "nat", "-I", "KUBE-SERVICES", "-j", "ACCEPT"]);
        node.iptables(&["-t", "nat", "-N", "KUBE-SVC-AAAAAAAAAAAAAAAA"]);
    });
    let synced = scene.lines(0, "synced");
    assert_eq!(synced.len(), 1, "{synced:?}");
    assert!(synced[0].contains("scope=\"adoption\""), "{synced:?}");
    assert!(synced[0].contains(" chains=3 "), "{synced:?}");
}

on_both_backends!(Kernel, damages_are_repaired);

/// Rules of an earlier kube-proxy, and third-party rules.
const EARLIER: &str = "\
*filter
:KUBE-FORWARD -
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A FORWARD -j KUBE-FORWARD -m comment --comment kubernetes
-A INPUT -s 10.9.9.9 -m conntrack --ctstate NEW -j ACCEPT
COMMIT
*nat
:KUBE-MARK-MASQ -
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A POSTROUTING -s 10.9.9.9 -j MASQUERADE
COMMIT
";

/// The check of each period finds what is damaged and nothing else, whatever the rules are. A
/// third-party rule that comes back costs its chain each time, and no full restore.
fn damage_is_told_from_other_options(backend: Backend) {
    let node = Node::new(backend);
    node.restore(EARLIER);
    let calls = node.manifests.path().join(".calls");
    let flags = [
        "--iptables-masquerade-bit=31",
        "--masquerade-all",
        "--iptables-localhost-nodeports=false",
        "--conntrack-tcp-be-liberal",
    ];
    let daemon = node.start_with(with_counted_restore(backend, &calls), &flags);
    node.wait_for_full_restore("--to-destination 10.4.0.12:8080");
    let before = node.rules_alone();
    wait_for_looks(&node, &calls, 3);
    let log = daemon.log();
    assert!(!log.contains("by another program"), "{log}");
    let back = "filter -A KUBE-FORWARD -s 10.9.9.9 -j ACCEPT";
    let lost = [
        "nat -F KUBE-MARK-MASQ",
        "filter -D KUBE-FORWARD 1",
        "nat -D KUBE-POSTROUTING 1",
    ];
    // On legacy it keeps the size: found soon only if it comes before the check after a restore.
    let replaced =
        (backend == Backend::Nft).then_some("nat -R KUBE-MARK-MASQ 1 -j MARK --set-xmark 0x1/0x1");
    for damage in lost.into_iter().chain(replaced).chain([back; 3]) {
        let args: Vec<&str> = ["-t"].into_iter().chain(damage.split(' ')).collect();
        node.iptables(&args);
        eventually(PATIENCE, || {
            let after = node.rules_alone();
            ensure(after == before, || {
                format!("{damage}: {after:#?}\n{}", daemon.log())
            })
        });
    }
    wait_for_looks(&node, &calls, 3);
    let log = daemon.log();
    assert!(!log.contains("rules were flushed or deleted"), "{log}");
    for (text, count) in [
        ("third-party rules found in a kube-proxy chain", 1),
        ("third-party rules are back in a kube-proxy chain", 2),
    ] {
        assert_eq!(log.matches(text).count(), count, "{text}: {log}");
    }
    let repaired = r#"deltaproxy_chain_repairs_total{ip_family="IPv4",table="filter"} 3"#;
    let full = format!("{FULL} 1");
    assert!(node.metric(repaired) && node.metric(&full), "{log}");
}

on_both_backends!(Kernel, damage_is_told_from_other_options);
