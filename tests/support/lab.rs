//! One node with pods, a neighbour outside the cluster, and the control plane that joins them.
//!
//! ```text
//!   control (10.200.0.1) ── br0 ──┬── node 10.200.0.2 ──┬── pod "a"      10.4.0.11
//!                                 └── outside           ├── pod "b"      10.4.0.12
//!                                     10.200.0.100      └── pod "client" 10.4.0.20
//! ```
//!
//! Pods hang on the node by a routed pair of devices each, not by a bridge: every packet between
//! two pods passes the node's netfilter hooks, with or without `br_netfilter`.

use std::net::{IpAddr, SocketAddr};

use super::daemon::{Backend, Daemon, Program};
use super::kube::ControlPlane;
use super::netns::Netns;
use super::objects;
use super::rules::{self, Family};
use super::servers::Server;
use super::wait::{PATIENCE, ensure, eventually};

/// The port that every pod listens on.
pub const POD_PORT: u16 = 8080;
/// The flag that names the pods' networks.
pub const CLUSTER_CIDR: &str = "--cluster-cidr=10.4.0.0/14,fd00:10:4::/48";
/// The node's own addresses.
pub const NODE_ADDRESSES: [&str; 2] = ["10.200.0.2", "fd00:200::2"];

/// A pod: its namespace, and a server on its two addresses.
pub struct Pod {
    /// Where clients can be run.
    pub netns: Netns,
    _servers: [Server; 2],
}

/// The whole scene. The daemon is started by the test.
pub struct Lab {
    /// The node's own namespace, where the rules are.
    pub node: Netns,
    /// A machine in the node's network that is not part of the cluster.
    pub outside: Netns,
    /// Two pods with servers named `a` and `b`.
    pub servers: [Pod; 2],
    /// A pod that asks.
    pub client: Pod,
    /// Etcd and the API server.
    pub control: ControlPlane,
    backend: Backend,
}

impl Lab {
    /// Builds everything and registers the node.
    pub fn new(backend: Backend) -> Self {
        let control = ControlPlane::start();
        let node = Netns::new("node");
        control.attach(&node, 2);
        node.forward();
        let outside = Netns::new("outside");
        control.attach(&outside, 100);
        // External and load-balancer addresses of the tests are routed to the node.
        outside.ip("route add 203.0.113.0/24 via 10.200.0.2");
        outside.ip("-6 route add 2001:db8:cafe::/48 via fd00:200::2");
        let servers = [pod(&node, "a", 11), pod(&node, "b", 12)];
        let client = pod(&node, "client", 20);
        control
            .api()
            .apply(&objects::node(NODE_ADDRESSES[0], NODE_ADDRESSES[1]));
        Self {
            node,
            outside,
            servers,
            client,
            control,
            backend,
        }
    }

    /// Starts the program under test on the node, connected to the API server.
    pub fn start_daemon(&self) -> Daemon {
        self.start(&Program::under_test(), &[])
    }

    /// Starts a program there, with the rights of a proxy and with these flags besides.
    pub fn start(&self, program: &Program, more: &[&str]) -> Daemon {
        let [kubeconfig, hostname] = self.control.flags();
        let args = [&[&*kubeconfig, &hostname, CLUSTER_CIDR], more].concat();
        Daemon::start_program(program, &self.node, self.backend, &args)
    }

    /// What the node's kernel holds now.
    pub fn rules(&self, family: Family) -> String {
        rules::saved(&self.node, self.backend, family)
    }

    /// Waits until a saved line holds `text`.
    #[track_caller]
    pub fn wait_for_text(&self, family: Family, text: &str) {
        eventually(PATIENCE, || {
            let saved = self.rules(family);
            ensure(saved.contains(text), || format!("no `{text}` in\n{saved}"))
        });
    }

    /// Waits until no saved line holds `text`.
    #[track_caller]
    pub fn wait_until_gone(&self, family: Family, text: &str) {
        eventually(PATIENCE, || {
            let saved = self.rules(family);
            ensure(!saved.contains(text), || {
                format!("`{text}` is still in\n{saved}")
            })
        });
    }
}

/// A machine beside the node, with this host number in their network. Both have a device `eth0`.
pub fn outside(node: &Netns, host: u8) -> Netns {
    let outside = Netns::new("outside");
    node.join("eth0", &outside, "eth0");
    for (netns, host) in [(node, 2), (&outside, host)] {
        netns.address("eth0", &format!("10.200.0.{host}/16"));
        netns.address("eth0", &format!("fd00:200::{host}/64"));
    }
    node.ip(&format!("route add default via 10.200.0.{host}"));
    node.ip(&format!("-6 route add default via fd00:200::{host}"));
    outside
}

/// The address of a pod by its host number.
pub fn pod_address(family: Family, host: u8) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([10, 4, 0, host]),
        Family::V6 => format!("fd00:10:4::{host}").parse().unwrap(),
    }
}

/// Hangs a pod on the node, with a server of the same name on both of its addresses.
pub fn pod(node: &Netns, name: &str, host: u8) -> Pod {
    let netns = Netns::new(&format!("pod-{name}"));
    let device = format!("pod{host}");
    node.join(&device, &netns, "eth0");
    node.address(&device, "10.4.0.1/32");
    node.address(&device, "fd00:10:4::1/128");
    node.ip(&format!("route add 10.4.0.{host} dev {device}"));
    node.ip(&format!("-6 route add fd00:10:4::{host} dev {device}"));
    netns.address("eth0", &format!("10.4.0.{host}/32"));
    netns.address("eth0", &format!("fd00:10:4::{host}/128"));
    netns.ip("route add 10.4.0.1 dev eth0");
    netns.ip("-6 route add fd00:10:4::1 dev eth0");
    netns.ip("route add default via 10.4.0.1");
    netns.ip("-6 route add default via fd00:10:4::1");
    let servers = Family::ALL.map(|family| {
        Server::start(
            &netns,
            name,
            SocketAddr::new(pod_address(family, host), POD_PORT),
        )
    });
    Pod {
        netns,
        _servers: servers,
    }
}
