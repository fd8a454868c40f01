//! A node with Pods and a neighbor outside of the cluster, and a shell on the node that has the
//! program and iptables.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::page::{Page, Sample};
use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::lab::{Pod, outside, pod};
use crate::support::netns::Netns;
use crate::support::node::Node;
use crate::support::servers::{Reply, tcp_request};
use crate::support::wait::{PATIENCE, ensure, eventually};

/// Address of the node outside of the cluster.
pub const OUTSIDE: &str = "10.200.0.100";
/// Address that is routed to no Pod: its packets get lost outside.
pub const GONE: &str = "10.4.0.99";
/// Endpoint with a server on this node.
pub const HERE: &str = "{addresses: [10.4.0.11], nodeName: node1}";
/// Frontends of the Service.
pub const CLUSTER_IP: &str = "10.96.0.10:80";
pub const LOAD_BALANCER: &str = "203.0.113.10:80";

/// Returns the Service `shop/web` with these further fields, and its endpoints.
pub fn web(fields: &str, endpoints: &str) -> String {
    let status = if fields.contains("LoadBalancer") {
        "status: {loadBalancer: {ingress: [{ip: 203.0.113.10}]}}\n"
    } else {
        ""
    };
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: web, namespace: shop}}
spec: {{clusterIP: 10.96.0.10, ports: [{{name: http, port: 80}}], {fields}}}
{status}---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, namespace: shop, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{name: http, port: 8080}}]
endpoints: [{endpoints}]
"
    )
}

/// Shell on a node.
pub struct Shell(TempDir);

impl Shell {
    pub fn new() -> Self {
        let bin = backend_programs(Backend::Nft);
        let program = env!("CARGO_BIN_EXE_deltaproxy");
        symlink(program, bin.path().join("deltaproxy")).unwrap();
        Self(bin)
    }

    /// Runs a command line on a node, and returns what it printed, errors last.
    pub fn run(&self, node: &Netns, line: &str) -> String {
        let line = format!("PATH={}:$PATH\n{line}", self.0.path().display());
        let mut bash = node.command("bash");
        bash.args(["-c", &line]).env_remove("RUST_LOG");
        let output = bash.output().unwrap();
        let texts = [output.stdout, output.stderr];
        String::from_utf8_lossy(&texts.concat()).into_owned()
    }
}

/// The node `node1` with a client and two servers, and `outside`.
pub struct Scene {
    pub node: Node,
    pub outside: Netns,
    pub client: Pod,
    pub servers: [Pod; 2],
    pub shell: Shell,
    pub page: Page,
}

impl Scene {
    pub fn new() -> Self {
        let node = Node::new(Backend::Nft);
        node.netns.forward();
        let outside = outside(&node.netns, 100);
        outside.ip("route add 203.0.113.0/24 via 10.200.0.2");
        let servers = [pod(&node.netns, "a", 11), pod(&node.netns, "b", 12)];
        let client = pod(&node.netns, "client", 20);
        Self {
            node,
            outside,
            client,
            servers,
            shell: Shell::new(),
            page: Page::read(),
        }
    }

    /// Starts the daemon with these manifests, and waits until a saved rule has this text.
    pub fn start(&self, manifests: &str, rule: &str, more: &[&str]) -> Daemon {
        self.node.write(manifests);
        let bin = backend_programs(Backend::Nft);
        let daemon = self.node.start_with(bin, more);
        self.node.wait_for_rule(rule);
        daemon
    }

    /// Runs a command line on the node.
    pub fn run(&self, line: &str) -> String {
        self.shell.run(&self.node.netns, line)
    }

    /// Follows the page, with these words replaced, to a section.
    #[track_caller]
    pub fn leads_to(&self, heading: &str, replaced: &[(&str, &str)]) {
        eventually(PATIENCE, || {
            let found = self.page.follow(replaced, |line| self.run(line))?;
            ensure(found == heading, || format!("leads to `{found}`"))
        });
    }

    /// Runs commands of the page, and compares their outputs.
    #[track_caller]
    pub fn check(&self, samples: &[Sample]) {
        for sample in samples {
            sample.check(|line| self.run(line));
        }
    }

    /// Follows the page to a section, and runs its commands.
    #[track_caller]
    pub fn finds(&self, heading: &str, replaced: &[(&str, &str)]) {
        self.leads_to(heading, replaced);
        self.check(self.page.samples(heading));
    }

    /// Connects from the client.
    pub fn ask(&self) -> Reply {
        tcp_request(&self.client.netns, CLUSTER_IP.parse().unwrap())
    }

    /// Connects from outside to the load balancer.
    pub fn ask_from_outside(&self) -> Reply {
        tcp_request(&self.outside, LOAD_BALANCER.parse().unwrap())
    }
}

/// The Service answers, once all is in the rules.
#[track_caller]
pub fn answers(ask: impl Fn() -> Reply) {
    eventually(PATIENCE, || ask().server().map(drop));
}

/// No endpoint answers.
#[track_caller]
pub fn is_silent(reply: &Reply) {
    assert!(reply.server().is_err(), "{reply:?}");
}
