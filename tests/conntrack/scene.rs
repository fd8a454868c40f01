//! A node with clients that keep their port.

use std::net::UdpSocket;
use std::time::Duration;

use crate::support::daemon::{Backend, Daemon, backend_programs};
use crate::support::lab::{Pod, outside, pod, pod_address};
use crate::support::netns::Netns;
use crate::support::node::Node;
use crate::support::objects;
use crate::support::process::run;
use crate::support::rules::{Family, saved};
use crate::support::wait::{PATIENCE, ensure, eventually};
use serde_json::json;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// The two pods with servers.
pub(crate) const A: u8 = 11;
pub(crate) const B: u8 = 12;

/// The port of the pods, and of the Service: clients which talk to a pod without it differ only by
/// the address.
pub(crate) const PORT: u16 = 8080;
pub(crate) const NODE_PORT: u16 = 30053;

/// A Service for datagrams at this port, with endpoints of both families.
pub(crate) fn shop(port: u16, endpoints: &[u8]) -> String {
    let service = objects::service(
        "shop",
        json!({
            "type": "NodePort",
            "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "fd00:10:96::a"],
            "ipFamilies": ["IPv4", "IPv6"],
            "ports": [{
                "name": "dns", "port": port, "targetPort": PORT, "protocol": "UDP",
                "nodePort": NODE_PORT,
            }],
        }),
    );
    let slices = Family::ALL.map(|family| {
        let addresses = endpoints.iter().map(|host| pod_address(family, *host));
        let addresses: Vec<String> = addresses.map(|ip| ip.to_string()).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        objects::slice(&service, &addresses)
    });
    // Without endpoints, both are the same.
    let different = if endpoints.is_empty() { 1 } else { 2 };
    objects::manifest(&[&[service], &slices[..different]].concat())
}

/// A node with two servers, a client, and a way out for what is no Service's.
pub(crate) struct Scene {
    pub(crate) node: Node,
    client: Pod,
    _servers: [Pod; 2],
    _outside: Netns,
}

impl Scene {
    pub(crate) fn new(backend: Backend) -> Self {
        let node = Node::new(backend);
        node.netns.forward();
        let outside = outside(&node.netns, 1);
        let servers = [pod(&node.netns, "a", A), pod(&node.netns, "b", B)];
        let client = pod(&node.netns, "client", 20);
        node.write(&shop(PORT, &[A, B]));
        Self {
            node,
            client,
            _servers: servers,
            _outside: outside,
        }
    }

    pub(crate) fn start(&self) -> Daemon {
        self.start_with(&[])
    }

    /// The same with more flags.
    pub(crate) fn start_with(&self, more: &[&str]) -> Daemon {
        let args = [&["-v=2"], more].concat();
        let daemon = self
            .node
            .start_with(backend_programs(self.node.backend), &args);
        self.wait_for_endpoints(&[A, B]);
        daemon
    }

    /// Gives the Service these endpoints, and waits until the rules are there.
    #[track_caller]
    pub(crate) fn change(&self, endpoints: &[u8]) {
        self.node.write(&shop(PORT, endpoints));
        self.wait_for_endpoints(endpoints);
    }

    /// Waits until the rules of both families name these endpoints and no others.
    #[track_caller]
    pub(crate) fn wait_for_endpoints(&self, endpoints: &[u8]) {
        eventually(PATIENCE, || {
            Family::ALL.iter().try_for_each(|family| {
                let rules = saved(&self.node.netns, self.node.backend, *family);
                let has = |host| {
                    let address = pod_address(*family, host);
                    let v4 = rules.contains(&format!("--to-destination {address}:8080"));
                    v4 || rules.contains(&format!("--to-destination [{address}]:8080"))
                };
                let is_so = [A, B]
                    .into_iter()
                    .all(|host| has(host) == endpoints.contains(&host));
                ensure(is_so, || format!("not {endpoints:?} in\n{rules}"))
            })
        });
    }

    /// How many entries the node has from the Service to one of its endpoints.
    pub(crate) fn flows(&self, family: Family, endpoint: u8) -> usize {
        let endpoint = pod_address(family, endpoint).to_string();
        let mut list = self.node.netns.command("conntrack");
        list.args(["-L", "-f", conntrack_name(family), "-p", "udp"]);
        list.args(["--orig-dst", cluster_ip(family), "--reply-src", &endpoint]);
        run(&mut list).lines().count()
    }

    /// A client that keeps its port.
    pub(crate) fn talk(&self, family: Family, to: &str, port: u16) -> Talk<'_> {
        Talk {
            scene: self,
            family,
            socket: connect(&self.client.netns, to, port),
        }
    }

    /// The same to the Service, once for each server that it can be sent to.
    pub(crate) fn talk_to_both(&self, family: Family, to: &str, port: u16) -> [Talk<'_>; 2] {
        ["a", "b"].map(|server| {
            eventually(PATIENCE, || {
                let talk = self.talk(family, to, port);
                let answered = talk.ask()?;
                ensure(answered == server, || format!("answered by {answered}"))?;
                Ok(talk)
            })
        })
    }
}

/// A client's socket, and with it one entry in the node's table.
pub(crate) struct Talk<'a> {
    scene: &'a Scene,
    pub(crate) family: Family,
    socket: UdpSocket,
}

impl Talk<'_> {
    /// Asks once, and tells who answered.
    pub(crate) fn ask(&self) -> Result<String, String> {
        ask(&self.socket)
    }

    /// This server answers, a second from now at the latest.
    #[track_caller]
    pub(crate) fn reaches(&self, server: &str) {
        eventually(SECOND, || {
            let answered = self.ask()?;
            ensure(answered == server, || format!("answered by {answered}"))
        });
    }

    /// No pod answers, a second from now at the latest.
    #[track_caller]
    pub(crate) fn reaches_nobody(&self) {
        eventually(SECOND, || match self.ask() {
            Ok(server) => Err(format!("answered by {server}")),
            Err(_) => Ok(()),
        });
    }

    /// What the kernel calls the entry, and the rest of what it says.
    pub(crate) fn entry(&self) -> Option<(String, String)> {
        let port = self.socket.local_addr().expect("an address").port();
        let mut list = self.scene.node.netns.command("conntrack");
        let family = conntrack_name(self.family);
        list.args(["-L", "-f", family, "-p", "udp", "-o", "id"]);
        let text = run(list.args(["--orig-port-src", &port.to_string()]));
        let id = text
            .split_whitespace()
            .find(|word| word.starts_with("id="))?;
        Some((id.to_owned(), text.clone()))
    }

    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.entry().expect("an entry").0
    }
}

/// A socket in a namespace, with a port that it keeps.
pub(crate) fn connect(netns: &Netns, to: &str, port: u16) -> UdpSocket {
    let any = if to.contains(':') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = netns.enter(|| {
        let socket = UdpSocket::bind(any).expect("a socket");
        socket.connect((to, port)).expect("a route");
        socket
    });
    let patience = Some(Duration::from_millis(200));
    socket.set_read_timeout(patience).expect("a timeout");
    socket
}

/// Asks once, and tells who answered.
pub(crate) fn ask(socket: &UdpSocket) -> Result<String, String> {
    let mut answer = [0; 128];
    let exchange = socket.send(b"who?");
    let exchange = exchange.and_then(|_| socket.recv(&mut answer));
    let length = exchange.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(answer.get(..length).unwrap_or_default());
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

fn conntrack_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

/// The addresses of the Service.
pub(crate) fn cluster_ip(family: Family) -> &'static str {
    match family {
        Family::V4 => "10.96.0.10",
        Family::V6 => "fd00:10:96::a",
    }
}

/// Addresses of the node, and of the machine outside.
pub(crate) fn addresses(family: Family) -> [&'static str; 2] {
    match family {
        Family::V4 => ["10.200.0.2", "10.200.0.1"],
        Family::V6 => ["fd00:200::2", "fd00:200::1"],
    }
}
