//! The daemon beside other programs that write rules: after each reload or rewrite of theirs,
//! Services answer, and their rules are those that they have on a node without the daemon.

use std::net::SocketAddr;

use tempfile::TempDir;

use super::scene::Scene;
use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::node::Node;
use crate::support::on_both_backends;
use crate::support::process::run;
use crate::support::servers::tcp_request;
use crate::support::wait::{PATIENCE, ensure, eventually};

/// Programs that write rules, and shell lines that do it as they do; `--` is between two steps. In
/// this order on one node: each finds the rules of those before it.
const NEIGHBORS: &[(&str, &str)] = &[
    ("flannel", include_str!("flannel.sh")),
    ("Docker", include_str!("docker.sh")),
    ("Calico", include_str!("calico.sh")),
    ("Cilium", include_str!("cilium.sh")),
    ("kube-router", include_str!("kube-router.sh")),
    ("AWS VPC CNI", include_str!("aws-vpc-cni.sh")),
    ("NodeLocal DNSCache", include_str!("nodelocal-dns.sh")),
    // It announces load balancer IPs, and writes no rules.
    ("MetalLB", ":"),
    ("istio-cni", include_str!("istio-cni.sh")),
    ("ufw", include_str!("ufw.sh")),
    // The last one, because it flushes the rules of all others.
    ("firewalld", include_str!("firewalld.sh")),
];

/// Frontends of the Service `web` with the clients that ask them.
const CLUSTER_IP: &str = "10.96.0.10:80";
const NODE_PORT: &str = "10.200.0.2:30080";
const LOAD_BALANCER: &str = "203.0.113.10:80";

/// A node with the daemon, and one without, which has the same programs.
struct Pair {
    scene: Scene,
    daemon: Daemon,
    without: Node,
    bin: TempDir,
    /// Rules of the node before the first neighbor.
    own: Vec<String>,
}

impl Pair {
    fn new(backend: Backend) -> Self {
        let scene = Scene::new(backend);
        let daemon = scene.start();
        Self {
            own: scene.node.rules_alone(),
            without: Node::new(backend),
            bin: backend_programs(backend),
            scene,
            daemon,
        }
    }

    /// Runs one step of a neighbor on both nodes.
    fn step(&self, lines: &str) {
        let folder = TempDir::new().unwrap();
        for node in [&self.scene.node, &self.without] {
            let path = format!("PATH={}:$PATH", self.bin.path().display());
            let text = format!("set -e\n{path}\n{lines}");
            let mut bash = node.netns.command("bash");
            run(bash.args(["-c", &text]).current_dir(folder.path()));
        }
    }

    /// Waits until Services answer, and no rule of the daemon is missing.
    #[track_caller]
    fn is_served(&self, name: &str) {
        let clients = [
            (&self.scene.client.netns, CLUSTER_IP),
            (&self.scene.node.netns, CLUSTER_IP),
            (&self.scene.outside, NODE_PORT),
            (&self.scene.outside, LOAD_BALANCER),
        ];
        for (client, to) in clients {
            let to: SocketAddr = to.parse().unwrap();
            eventually(PATIENCE, || {
                let reply = tcp_request(client, to);
                let server = reply
                    .server()
                    .map_err(|error| format!("{name}: {to}: {error}"))?;
                ensure(server == "a", || format!("{name}: {to}: {server}"))
            });
        }
        eventually(PATIENCE, || {
            let rules = self.scene.node.rules_alone();
            let missing = self.own.iter().filter(|line| line.contains("KUBE-"));
            let missing: Vec<_> = missing.filter(|line| !rules.contains(line)).collect();
            ensure(missing.is_empty(), || {
                format!("{name}: missing {missing:#?}")
            })
        });
    }

    /// Asserts that the rules of neighbors are the same with and without the daemon.
    #[track_caller]
    fn has_untouched_neighbors(&self, name: &str) {
        let of_neighbors = |node: &Node| {
            let mut table = String::new();
            let mut rules = Vec::new();
            for line in node.rules_alone() {
                if line.starts_with('*') {
                    table.clone_from(&line);
                } else if !self.own.contains(&line) {
                    rules.push(format!("{table} {line}"));
                }
            }
            // Legacy saves the tables in the order in which they were loaded.
            rules.sort_by_key(|line| line.split(' ').next().map(str::to_owned));
            rules.join("\n")
        };
        let [found, expected] = [&self.scene.node, &self.without].map(of_neighbors);
        assert_eq!(found, expected, "{name}");
    }
}

fn services_answer_beside_neighbors(backend: Backend) {
    let pair = Pair::new(backend);
    for (name, script) in NEIGHBORS {
        for step in script.split("\n--\n") {
            pair.step(step);
            pair.is_served(name);
            pair.has_untouched_neighbors(name);
        }
    }
    // Only nft reports which chains a transaction removes.
    let metric = "deltaproxy_third_party_chains_removed_total{ip_family=\"IPv4\",table=\"nat\"}";
    let (warnings, chains) = match backend {
        // One for each table.
        Backend::Nft => (3, 10),
        Backend::Legacy => (0, 0),
    };
    // Each table is reported after its transaction.
    let is_warning = |line: &&str| line.contains("removed chains of third parties");
    let log = eventually(PATIENCE, || {
        let log = pair.daemon.log();
        let count = log.lines().filter(is_warning).count();
        ensure(count == warnings, || format!("{count}: {log}"))?;
        Ok(log)
    });
    let is_named = log.contains("chains=\"AWS-CONNMARK-CHAIN-0, AWS-SNAT-CHAIN-0, CILIUM_");
    assert_eq!(is_named, backend == Backend::Nft, "{log}");
    assert!(pair.scene.node.metric(&format!("{metric} {chains}")));
}

on_both_backends!(Kernel, services_answer_beside_neighbors);

#[test]
fn the_page_has_a_section_for_each_neighbor() {
    let page = include_str!("../../deploy/docs/neighbors.md");
    for (name, _) in NEIGHBORS {
        let is_heading = |line: &str| line.starts_with("## ") && line.contains(name);
        assert!(page.lines().any(is_heading), "no section about {name}");
    }
}
