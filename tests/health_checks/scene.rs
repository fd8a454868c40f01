//! One control plane, and machines that run one of the two programs each.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::daemon::{Backend, Daemon, Program, backend_programs, wait_until_ok};
use crate::support::kube::ControlPlane;
use crate::support::netns::Netns;
use crate::support::reply::alike;
use crate::support::rules::Family;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, objects};

pub const PORT: u16 = 32_100;
pub const OTHER_PORT: u16 = 32_200;
const REFUSED: &str = "Connection refused";

/// One machine that runs one of the programs.
pub struct Node {
    /// What it runs, if anything.
    pub daemon: Option<Daemon>,
    /// Where.
    pub netns: Netns,
}

/// A control plane and its machines, which all are the one Node.
pub struct Scene {
    /// In the order they were started.
    pub nodes: Vec<Node>,
    control: ControlPlane,
}

impl Scene {
    pub fn new() -> Self {
        let control = ControlPlane::start();
        control.api().apply(&node());
        Self {
            nodes: Vec::new(),
            control,
        }
    }

    /// Starts both programs, kube-proxy first, with these flags, in place of all that ran before.
    pub fn both(&mut self, flags: &[&str]) {
        self.nodes.clear();
        self.start(&Program::kube_proxy(), flags);
        self.start(&Program::Deltaproxy, flags);
    }

    pub fn api(&self) -> &Api {
        self.control.api()
    }

    /// The kubeconfig with the rights of a proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        self.control.proxy_kubeconfig()
    }

    /// A machine with nothing running.
    pub fn machine(&mut self) -> &mut Node {
        let netns = Netns::new("health");
        let host = u8::try_from(self.nodes.len()).unwrap() + 2;
        self.control.attach(&netns, host);
        let daemon = None;
        self.nodes.push(Node { daemon, netns });
        self.nodes.last_mut().unwrap()
    }

    pub fn start(&mut self, program: &Program, flags: &[&str]) {
        self.machine();
        self.run(program, flags);
        let node = self.nodes.last().unwrap();
        wait_until_ok(&node.netns, "/livez");
    }

    /// Runs a program on the last machine, without waiting for it.
    pub fn run(&mut self, program: &Program, flags: &[&str]) {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig().display());
        let hostname = format!("--hostname-override={}", objects::NODE);
        let common: &[&str] = &[
            &kubeconfig,
            &hostname,
            "--cluster-cidr=10.4.0.0/14,fd00:10:4::/48",
            "--iptables-min-sync-period=0s",
        ];
        let args = [common, flags].concat();
        let node = self.nodes.last_mut().unwrap();
        let bin = backend_programs(Backend::Nft);
        node.daemon = Some(Daemon::spawn(program, &node.netns, bin, &args));
    }

    /// Waits until every machine says so on this port in this family, with the same words.
    #[track_caller]
    pub fn say(&self, family: Family, port: u16, status: u16, weight: usize) {
        let replies: Vec<String> = self
            .nodes
            .iter()
            .map(|node| {
                eventually(PATIENCE, || {
                    let reply = http::ask(&node.netns, loopback(family, port), "GET /")?;
                    let wanted = [
                        format!("HTTP/1.1 {status} "),
                        format!("\r\nX-Load-Balancing-Endpoint-Weight: {weight}\r\n"),
                        format!("\t\"localEndpoints\": {weight},\n"),
                    ];
                    ensure(wanted.iter().all(|part| reply.contains(part)), || {
                        reply.clone()
                    })?;
                    Ok(alike(&reply))
                })
            })
            .collect();
        assert_eq!(replies.first(), replies.last());
    }

    /// Waits until no program listens there.
    #[track_caller]
    pub fn are_silent(&self, family: Family, port: u16) {
        for node in &self.nodes {
            node.is_silent(loopback(family, port));
        }
    }
}

impl Node {
    #[track_caller]
    pub fn is_silent(&self, address: SocketAddr) {
        eventually(PATIENCE, || {
            match http::ask(&self.netns, address, "GET /") {
                Err(why) if why.contains(REFUSED) => Ok(()),
                other => Err(format!("{address}: {other:?}")),
            }
        });
    }

    #[track_caller]
    pub fn answers(&self, address: SocketAddr) -> String {
        eventually(PATIENCE, || http::ask(&self.netns, address, "GET /"))
    }

    /// Waits until a path of the health port has this status.
    #[track_caller]
    pub fn says(&self, path: &str, wanted: u16) {
        eventually(PATIENCE, || {
            let (status, body) = http::get(&self.netns, Daemon::HEALTH, path)?;
            ensure(status == wanted, || format!("{path}: {status}: {body}"))
        });
    }
}

pub fn loopback(family: Family, port: u16) -> SocketAddr {
    match family {
        Family::V4 => ([127, 0, 0, 1], port).into(),
        Family::V6 => (std::net::Ipv6Addr::LOCALHOST, port).into(),
    }
}

pub fn node() -> Value {
    objects::node("10.200.0.2", "fd00:200::2")
}

/// A dual-stack load balancer with external policy Local.
pub fn balanced(port: u16) -> Value {
    let spec = json!({
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": port,
        "clusterIP": "10.96.1.1",
        "clusterIPs": ["10.96.1.1", "fd00:10:96::11"],
        "ipFamilyPolicy": "RequireDualStack",
        "ipFamilies": ["IPv4", "IPv6"],
    });
    objects::service("lb", spec)
}
