//! A node with pods, a container on a bridge of its own, and a host outside of the cluster.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::lab::{Pod, outside, pod};
use crate::support::netns::Netns;
use crate::support::node::Node;
use crate::support::objects;
use crate::support::servers::Server;

/// Services with the addresses of their endpoints: `web` with all kinds of frontends, `two` with
/// two endpoints, `none` without any, `dns` of UDP, and `box` with the container.
fn manifests() -> String {
    let udp = json!([{"name": "dns", "port": 53, "targetPort": 8080, "protocol": "UDP"}]);
    let http = json!([{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080}]);
    let services: [(&str, Value, &[&str]); 5] = [
        (
            "web",
            json!({"type": "LoadBalancer", "clusterIP": "10.96.0.10", "ports": http}),
            &["10.4.0.11"],
        ),
        (
            "two",
            json!({"clusterIP": "10.96.0.11"}),
            &["10.4.0.11", "10.4.0.12"],
        ),
        ("none", json!({"clusterIP": "10.96.0.12"}), &[]),
        (
            "dns",
            json!({"clusterIP": "10.96.0.13", "ports": udp}),
            &["10.4.0.12"],
        ),
        ("box", json!({"clusterIP": "10.96.0.14"}), &[CONTAINER]),
    ];
    let objects = services.map(|(name, spec, endpoints)| {
        let mut service = objects::service(name, spec);
        if name == "web" {
            service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.10"}]}});
        }
        let slice = objects::slice(&service, endpoints);
        [service, slice]
    });
    objects::manifest(&objects.concat())
}

/// Address of the host outside of the cluster.
pub const OUTSIDE: &str = "10.200.0.100";
/// Address of the container, which is not a pod.
pub const CONTAINER: &str = "172.17.0.2";
/// Addresses of the node.
pub const NODE: [&str; 3] = ["10.200.0.2", "10.4.0.1", "172.17.0.1"];

/// The node, without a daemon.
pub struct Scene {
    pub node: Node,
    pub outside: Netns,
    pub client: Pod,
    pub servers: [Pod; 2],
    pub container: Netns,
    _server: Server,
}

impl Scene {
    pub fn new(backend: Backend) -> Self {
        let node = Node::new(backend);
        node.netns.forward();
        // A host that was sent a redirect is not sent the error of a REJECT for a second.
        for device in ["all", "default"] {
            let key = format!("ipv4/conf/{device}/send_redirects");
            node.netns.sysctl(&key, "0");
        }
        let outside = outside(&node.netns, 100);
        for network in [
            "203.0.113.0/24",
            "10.96.0.0/16",
            "10.4.0.0/24",
            "172.17.0.0/16",
        ] {
            outside.ip(&format!("route add {network} via 10.200.0.2"));
        }
        let servers = [pod(&node.netns, "a", 11), pod(&node.netns, "b", 12)];
        let client = pod(&node.netns, "client", 20);
        let container = Netns::new("container");
        node.netns.join("veth0", &container, "eth0");
        node.netns.bridge("docker0");
        node.netns.ip("link set veth0 master docker0");
        // Without it, the bridge drops packets of the container to itself.
        node.netns.ip("link set veth0 type bridge_slave hairpin on");
        node.netns.address("docker0", "172.17.0.1/16");
        container.address("eth0", &format!("{CONTAINER}/16"));
        container.ip("route add default via 172.17.0.1");
        let address: SocketAddr = format!("{CONTAINER}:8080").parse().unwrap();
        let server = Server::start(&container, "container", address);
        node.write(&manifests());
        Self {
            node,
            outside,
            client,
            servers,
            container,
            _server: server,
        }
    }

    /// Starts the daemon, and waits for its rules.
    pub fn start(&self) -> Daemon {
        let daemon = self.node.start(backend_programs(self.node.backend));
        self.node.wait_for_full_restore("10.4.0.11:8080");
        daemon
    }
}
