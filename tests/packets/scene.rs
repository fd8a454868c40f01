//! The lab with what the tables need beyond it, and the programs that take turns on its node.
//!
//! ```text
//!   control ── br0 ──┬── node ─────┬── a, b      pods of this node
//!     x              └── outside   ├── c         a pod of another node, says its slice
//!                                  └── client    a pod that asks
//! ```
//!
//! `c` hangs on a device of its own like the others: to the node's kernel, a pod behind an overlay
//! network is one more device to route to. Answers to it come back through the node even if the
//! client was not masqueraded, so that a server can tell whether it was. `x` is the world beyond:
//! it answers for the address of a Service where the node is expected to leave a packet alone.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

use super::cluster::{self, UDP_POD_PORT};
use super::table::{Damage, Row, RuleScope, Service};
use super::words::{Client, Met, Target, Variant, Word};
use crate::support::daemon::{Backend, Daemon, Program, real_program, wait_until_ok};
use crate::support::lab::{CLUSTER_CIDR, Lab, POD_PORT, Pod, pod, pod_address};
use crate::support::netns::Netns;
use crate::support::process::run;
use crate::support::rules::{Family, endpoint_chain, restore, service_chain};
use crate::support::servers::Server;
use crate::support::wait::{PATIENCE, ensure, eventually};

/// Of the nat table, which is the last that a restore commits: once it is there, all is.
const NODE_PORTS_COMMENT: &str = "NOTE: this must be the last rule in this chain";

/// Namespaces, servers and objects. One program at a time runs in it.
pub struct Scene {
    /// The node under test and its surroundings.
    pub lab: Lab,
    /// Every Service of the tables.
    pub services: Vec<Service>,
    remote: Pod,
    servers: Vec<Server>,
    backend: Backend,
}

impl Scene {
    /// Builds everything and fills the cluster.
    pub fn new(backend: Backend, services: Vec<Service>) -> Self {
        let lab = Lab::new(backend);
        let remote = pod(&lab.node, "c", cluster::place('c').1);
        let mut scene = Self {
            lab,
            services,
            remote,
            servers: Vec::new(),
            backend,
        };
        scene.connect();
        scene.start_servers();
        scene.fill();
        scene
    }

    /// Routes to addresses that only Services have.
    fn connect(&self) {
        let outside = &self.lab.outside;
        outside.ip("route add 10.96.0.0/12 via 10.200.0.2");
        outside.ip("route add 198.51.100.0/24 via 10.200.0.2");
        outside.ip("route add 10.4.0.0/24 via 10.200.0.2");
        outside.ip("-6 route add fd00:10:96::/112 via fd00:200::2");
        outside.ip("-6 route add fd00:10:4::/64 via fd00:200::2");
        // What the node does not take for a Service goes there, and answers shall come back.
        let beyond = self.lab.control.netns();
        beyond.ip("route add 10.4.0.0/24 via 10.200.0.2");
        beyond.ip("-6 route add fd00:10:4::/64 via fd00:200::2");
        // Also those that a broken node left alone, so that it sees both directions.
        beyond.ip("route add 10.200.0.100/32 via 10.200.0.2");
        beyond.ip("-6 route add fd00:200::64/128 via fd00:200::2");
        // The kernel would learn the direct way, past the node.
        for (netns, device) in [(outside, "eth0"), (beyond, "br0")] {
            for conf in ["ipv4/conf/all", "ipv6/conf/all"] {
                let own = conf.replace("all", device);
                for conf in [conf, &own] {
                    netns.sysctl(&format!("{conf}/accept_redirects"), "0");
                }
            }
        }
        // Neighbors that try what `route_localnet` opens.
        let neighbors = [
            (outside, "10.200.0.2"),
            (&self.lab.client.netns, "10.4.0.1"),
        ];
        for (netns, node) in neighbors {
            netns.sysctl("ipv4/conf/all/route_localnet", "1");
            let to = cluster::LOCALHOST;
            netns.ip(&format!("route add table local {to} via {node} dev eth0"));
        }
        for netns in [&self.lab.node, beyond] {
            // Each refused client shall hear of it, not six of them and then one a second; and not
            // only fifty at once, the limit of all types of messages that are in the mask.
            netns.sysctl("ipv4/icmp_ratelimit", "0");
            netns.sysctl("ipv6/icmp/ratelimit", "0");
            netns.sysctl("ipv4/icmp_ratemask", "0");
            // A type that does not exist: an empty mask cannot be written.
            netns.sysctl("ipv6/icmp/ratemask", "255");
        }
    }

    fn start_servers(&mut self) {
        let pods = [
            ('a', &self.lab.servers[0]),
            ('b', &self.lab.servers[1]),
            ('c', &self.remote),
        ];
        for (name, pod) in pods {
            for family in Family::ALL {
                let address = pod_address(family, cluster::place(name).1);
                let address = SocketAddr::new(address, UDP_POD_PORT);
                let name = name.to_ascii_uppercase().to_string();
                self.servers.push(Server::start(&pod.netns, &name, address));
            }
        }
        for family in Family::ALL {
            let address = cluster::server_address(cluster::HOST_SERVER, family);
            let address = SocketAddr::new(address, POD_PORT);
            let name = cluster::HOST_SERVER.to_string();
            self.servers
                .push(Server::start(&self.lab.node, &name, address));
        }
        let own = cluster::address(Target::Localhost, 0, Family::V4);
        self.servers.push(Server::start(&self.lab.node, "n", own));
        let beyond = self.lab.control.netns();
        for to in self.untaken() {
            beyond.address("lo", &to.ip().to_string());
            self.servers.push(Server::start(beyond, "x", to));
        }
        let held = (0..)
            .zip(&self.services)
            .filter(|(_, service)| service.word("held").is_some());
        for (index, _) in held {
            for family in Family::ALL {
                let address = cluster::address(Target::LoadBalancer, index, family);
                self.lab.node.address("lo", &address.ip().to_string());
            }
        }
    }

    /// The addresses at which clients reach `x`.
    fn untaken(&self) -> BTreeSet<SocketAddr> {
        let mut addresses = BTreeSet::new();
        for (index, service) in self.services.iter().enumerate() {
            // Masqueraded or not.
            let is_x = |met: &Met| matches!(met, Met::Server(name, _) if name == "x");
            let meets_x = |row: &&Row| row.cells.iter().any(|(_, cell)| cell.met.iter().any(is_x));
            for row in service.all_rows().filter(meets_x) {
                let of = |family: &Family| cluster::address(row.target, index, *family);
                addresses.extend(row.families.iter().map(of));
            }
        }
        addresses
    }

    fn fill(&self) {
        let numbered = self.services.iter().enumerate();
        let mut objects: Vec<_> = numbered
            .map(|(index, service)| cluster::object(service, index))
            .collect();
        let with_endpoints = self
            .services
            .iter()
            .filter(|each| !each.endpoints.is_empty());
        objects.extend(with_endpoints.flat_map(cluster::slices));
        self.lab.control.api().apply_all(&objects);
    }

    /// Where a client is.
    pub fn netns(&self, client: Client) -> &Netns {
        match client {
            Client::Pod => &self.lab.client.netns,
            Client::Node => &self.lab.node,
            Client::Outside => &self.lab.outside,
            Client::A => &self.lab.servers[0].netns,
        }
    }

    /// Starts a program on a node without rules, and waits until all its rules are there.
    pub fn start(&self, program: &Program, variant: Variant) -> Daemon {
        self.clear();
        self.take_over(program, variant)
    }

    /// The same on a node that has the rules of the program before.
    pub fn take_over(&self, program: &Program, variant: Variant) -> Daemon {
        if variant == Variant::ClosedNode {
            self.set_forward_policy("DROP");
        }
        let [kubeconfig, hostname] = self.lab.control.flags();
        let mut args = vec![kubeconfig.as_str(), &hostname];
        args.extend(flags(variant));
        let daemon = Daemon::start_in_zone(program, &self.lab.node, self.backend, &args);
        wait_until_ok(&self.lab.node, "/healthz");
        for family in Family::ALL {
            eventually(PATIENCE, || self.settled(family, variant));
        }
        if variant == Variant::Default {
            self.add_third_party_rules();
        }
        daemon
    }

    /// Puts the rules of other programs in front of all others, a chain for each Service and hook.
    fn add_third_party_rules(&self) {
        for (index, service) in self.services.iter().enumerate() {
            for family in Family::ALL {
                let rules = service.rules.iter();
                let rules = rules.filter(|rule| rule.families.contains(&family));
                let places: BTreeSet<(RuleScope, &str)> = rules
                    .clone()
                    .map(|rule| (rule.scope, &*rule.hook))
                    .collect();
                let chain = |scope, hook: &str| {
                    let letter = match scope {
                        RuleScope::Request => 'F',
                        RuleScope::Security => 'S',
                        RuleScope::Reply => 'B',
                        RuleScope::Raw => 'R',
                    };
                    format!("THIRD-PARTY-{index}-{letter}-{hook}")
                };
                for (scope, hook) in places {
                    self.add_third_party_chain(&chain(scope, hook), (scope, hook), index, family);
                }
                for rule in rules {
                    let mut add = self.iptables(family);
                    add.args(["-t", table_of(rule.scope)]);
                    add.args(["-A", &chain(rule.scope, &rule.hook)]);
                    run(add.args(&rule.words));
                }
            }
        }
    }

    /// Empties the chain of a Service, or makes it and leads packets to it.
    fn add_third_party_chain(
        &self,
        chain: &str,
        (scope, hook): (RuleScope, &str),
        index: usize,
        family: Family,
    ) {
        let table = table_of(scope);
        let iptables = |words: &[&str]| {
            run(self.iptables(family).args(["-t", table]).args(words));
        };
        if self.lab.rules(family).contains(&format!(":{chain} ")) {
            iptables(&["-F", chain]);
            return;
        }
        iptables(&["-N", chain]);
        let to = cluster::address(Target::ClusterIp, index, family)
            .ip()
            .to_string();
        let (state, direction) = match scope {
            RuleScope::Request | RuleScope::Security => ("NEW", "ORIGINAL"),
            RuleScope::Reply => ("ESTABLISHED", "REPLY"),
            // There is no connection yet.
            RuleScope::Raw => {
                iptables(&["-I", hook, "-d", &to, "-j", chain]);
                iptables(&["-I", hook, "-s", &to, "-j", chain]);
                return;
            }
        };
        let connection = ["-m", "conntrack", "--ctstate", state, "--ctdir", direction];
        let jump = [
            &["-I", hook][..],
            &connection,
            &["--ctorigdst", &to, "-j", chain],
        ];
        iptables(&jump.concat());
    }

    /// Damages the rules as the table of a Service says, and returns the rules before.
    pub fn damage(&self, service: &Service, damage: &Damage) -> SavedRules<'_> {
        let saved = SavedRules::of(self);
        for family in Family::ALL {
            for command in &damage.commands {
                let words = self.command_words(service, command, family);
                run(self.iptables(family).args(&words));
            }
        }
        saved
    }

    /// Replaces the words of a damage that stand for chains and addresses of the Service, chains of
    /// others, and `last`, which is the number of the last rule of the chain before it.
    fn command_words(&self, service: &Service, words: &[String], family: Family) -> Vec<String> {
        let port = format!("default/{}:http", service.name);
        let mut services = self.services.iter();
        let index = services.position(|one| one.name == service.name);
        let mut replaced: Vec<String> = Vec::new();
        for word in words {
            replaced.push(match word.as_str() {
                "EXT" | "FW" | "SVC" | "SVL" => {
                    service_chain(&format!("KUBE-{word}-"), &port, "tcp")
                }
                "cluster-ip" | "external-ip" => {
                    let index = index.expect("a Service of the tables");
                    let address = cluster::address(Target::meant(word), index, family);
                    address.ip().to_string()
                }
                of_other if of_other.starts_with("SVC:") => {
                    let port = of_other.replace("SVC:", "default/") + ":http";
                    service_chain("KUBE-SVC-", &port, "tcp")
                }
                "SEP-a" | "SEP-c" => {
                    let server = word.chars().next_back().unwrap();
                    let address = cluster::server_address(server, family);
                    let endpoint = SocketAddr::new(address, POD_PORT).to_string();
                    endpoint_chain(&port, "tcp", &endpoint)
                }
                "last" => {
                    let chain = replaced.last().expect("a chain is before it");
                    let start = format!("-A {chain} ");
                    let rules = self.lab.rules(family);
                    // Chains of the nat table, whose names no other table has.
                    let nat = rules.split("*nat").nth(1).expect("a nat table");
                    let own = nat.lines().take_while(|line| *line != "COMMIT");
                    own.filter(|line| line.starts_with(&start))
                        .count()
                        .to_string()
                }
                other => other.to_owned(),
            });
        }
        replaced
    }

    fn settled(&self, family: Family, variant: Variant) -> Result<(), String> {
        let rules = self.lab.rules(family);
        let not_from_pods = match family {
            Family::V4 => "! -s 10.4.0.0/14",
            Family::V6 => "! -s fd00:10:4::/48",
        };
        let tells_pods = rules.contains(not_from_pods);
        ensure(tells_pods || variant != Variant::Default, || {
            "pods are not told from others".to_owned()
        })?;
        ensure(rules.contains(NODE_PORTS_COMMENT), || {
            "the nat table is not there".to_owned()
        })?;
        let missing = self
            .services
            .iter()
            .find(|service| !rules.contains(&format!("default/{}:http", service.name)));
        match missing {
            Some(service) => Err(format!("no rule of {}", service.name)),
            None => Ok(()),
        }
    }

    fn set_forward_policy(&self, policy: &str) {
        for family in Family::ALL {
            run(self.iptables(family).args(["-P", "FORWARD", policy]));
        }
    }

    /// Leaves nothing of the program before: rules, connections, settings.
    fn clear(&self) {
        self.set_forward_policy("ACCEPT");
        for family in Family::ALL {
            for table in ["filter", "nat", "mangle", "raw", "security"] {
                for what in ["-F", "-X"] {
                    run(self.iptables(family).args(["-t", table, what]));
                }
            }
            let left = self.lab.rules(family);
            assert!(!left.contains("KUBE-"), "not cleared:\n{left}");
        }
        self.lab.node.sysctl("ipv4/conf/all/route_localnet", "0");
        run(self.lab.node.command("conntrack").arg("-F"));
    }

    fn iptables(&self, family: Family) -> Command {
        let program = real_program(self.backend, family.program());
        self.lab.node.command(program)
    }
}

/// The rules of a node, which are put back in the end.
#[must_use]
pub struct SavedRules<'s> {
    scene: &'s Scene,
    texts: [String; 2],
}

impl<'s> SavedRules<'s> {
    fn of(scene: &'s Scene) -> Self {
        let texts = Family::ALL.map(|family| scene.lab.rules(family));
        Self { scene, texts }
    }

    /// Puts the rules back in the place of all that are there.
    pub fn restore(self) {
        for (family, text) in Family::ALL.into_iter().zip(&self.texts) {
            let scene = self.scene;
            restore(&scene.lab.node, scene.backend, family, &[], text);
        }
    }
}

/// The table that rules about these packets stand in.
const fn table_of(scope: RuleScope) -> &'static str {
    match scope {
        RuleScope::Request | RuleScope::Reply => "filter",
        RuleScope::Security => "security",
        RuleScope::Raw => "raw",
    }
}

fn flags(variant: Variant) -> Vec<&'static str> {
    match variant {
        Variant::Default | Variant::ClosedNode => vec![CLUSTER_CIDR],
        Variant::NoDetector => vec![],
        Variant::MasqueradeAll => vec![CLUSTER_CIDR, "--masquerade-all"],
        Variant::NoLocalhost => vec![CLUSTER_CIDR, "--iptables-localhost-nodeports=false"],
        Variant::OneAddress => vec![
            CLUSTER_CIDR,
            "--nodeport-addresses=10.200.0.0/16,fd00:200::/64",
        ],
        Variant::Primary => vec![CLUSTER_CIDR, "--nodeport-addresses=primary"],
        Variant::LocalhostOnly => vec![CLUSTER_CIDR, "--nodeport-addresses=127.0.0.0/8"],
    }
}

/// The programs that are compared, and what they are called.
pub fn programs() -> [(&'static str, Program); 2] {
    [
        ("kube-proxy", Program::kube_proxy()),
        ("deltaproxy", Program::Deltaproxy),
    ]
}
