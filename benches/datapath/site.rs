//! A node with the rules of one program, between a client and a server.
//!
//! ```text
//!   client 10.5.0.2 ── node ── server 10.7.0.2
//!   (10.6.0.0/16)              (10.128.0.0/9: all endpoints)
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::connect::{SOURCES, Sources};
use crate::order;
use crate::server::{PORT, Server};
use crate::shared::scrape::Sample;
use crate::subject::Subject;
use crate::support::daemon::Daemon;
use crate::support::http;
use crate::support::kube::ControlPlane;
use crate::support::lab::CLUSTER_CIDR;
use crate::support::netns::Netns;
use crate::support::process::run;
use crate::support::wait::{PATIENCE, eventually};

const ENDPOINTS: &str = "10.128.0.0/9";
const SERVICE_PORT: u16 = 80;
/// The server's own address, as every Pod has one.
const PLAIN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), PORT);

/// Kept apart, so that no wakeup of the one delays the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpu {
    /// The client's, and all of the path to the server.
    First,
    /// The server's own work.
    Last,
}

/// Keeps the calling thread on one CPU.
pub fn pin(cpu: Cpu) {
    let number = match cpu {
        Cpu::First => 0,
        Cpu::Last => thread::available_parallelism().map_or(1, usize::from) - 1,
    };
    let mut set = CpuSet::new();
    set.set(number).expect("a CPU");
    sched_setaffinity(Pid::from_raw(0), &set).expect("keep a thread on a CPU");
}

/// Three namespaces, and the rules in the middle.
pub struct Site {
    pub subject: Subject,
    pub client: Netns,
    node: Netns,
    server: Netns,
    /// Service addresses in the order of their rules.
    order: Vec<Ipv4Addr>,
    /// From the start of the program until all Services had rules.
    pub programmed_after: Duration,
}

impl Site {
    /// Has the program write its rules, and ends it: they stay, and nothing else takes CPU.
    ///
    /// `number` is that of the site on the control plane's network.
    pub fn new(
        control: &ControlPlane,
        subject: Subject,
        number: u8,
        services: &[Ipv4Addr],
        patience: Duration,
    ) -> Self {
        let [client, node, server] = ["client", "node", "server"].map(Netns::new);
        control.attach(&node, 2 + number);
        join(&client, &node, &server);
        let mut site = Self {
            subject,
            client,
            node,
            server,
            order: Vec::new(),
            programmed_after: Duration::ZERO,
        };
        let start = Instant::now();
        let mut daemon = site.start(control);
        while !Sample::of(&http::metrics(&site.node, Daemon::METRICS)).is_synced() {
            daemon.assert_running();
            assert!(start.elapsed() < patience, "no rules after {patience:?}");
            thread::sleep(Duration::from_millis(50));
        }
        site.programmed_after = start.elapsed();
        daemon.terminate();
        site.order = site.order_of(services);
        site.try_all();
        site
    }

    fn start(&self, control: &ControlPlane) -> Daemon {
        let [kubeconfig, hostname] = control.flags();
        let mut args = vec![kubeconfig.as_str(), &hostname, CLUSTER_CIDR];
        args.extend(self.subject.flags());
        let program = self.subject.program();
        Daemon::start_program(&program, &self.node, self.subject.backend(), &args)
    }

    /// A verdict map has no order; there it is that of the addresses.
    fn order_of(&self, services: &[Ipv4Addr]) -> Vec<Ipv4Addr> {
        let mut sorted = services.to_vec();
        sorted.sort_unstable();
        if !self.subject.uses_iptables() {
            return sorted;
        }
        let save = format!("iptables-{}-save", self.subject.backend().name());
        let saved = run(self.node.command(save).args(["-t", "nat"]));
        let order = order::cluster_ips(&saved, SERVICE_PORT);
        let mut found = order.clone();
        found.sort_unstable();
        assert!(found == sorted, "{} Services have rules", found.len());
        order
    }

    /// Rules that miss would otherwise be measured as fast ones.
    fn try_all(&self) {
        let _server = self.serve();
        let mut targets = self.spread(usize::MAX);
        targets.push(PLAIN);
        self.client.enter(|| {
            let mut sources = Sources::of(0);
            for to in targets {
                eventually(PATIENCE, || {
                    sources
                        .connect(to)
                        .map_err(|error| format!("{to}: {error}"))
                });
            }
        });
    }

    /// Starts the server, after the node has forgotten all connections.
    pub fn serve(&self) -> Server {
        run(self.node.command("conntrack").arg("-F"));
        Server::start(&self.server)
    }

    /// First, middle and last Service, and an address of none.
    pub fn targets(&self) -> [SocketAddrV4; 4] {
        let last = self.order.len() - 1;
        let [first, middle, last] = [0, last / 2, last].map(|at| self.order[at]);
        let service = |ip| SocketAddrV4::new(ip, SERVICE_PORT);
        [service(first), service(middle), service(last), PLAIN]
    }

    /// Services that are evenly spread over the order, this many at most.
    pub fn spread(&self, most: usize) -> Vec<SocketAddrV4> {
        let step = self.order.len().div_ceil(most);
        let services = self.order.iter().step_by(step);
        services
            .map(|ip| SocketAddrV4::new(*ip, SERVICE_PORT))
            .collect()
    }
}

fn join(client: &Netns, node: &Netns, server: &Netns) {
    node.forward();
    // Forgotten soon after its end, so that the table does not fill.
    node.sysctl("netfilter/nf_conntrack_tcp_timeout_close", "1");
    for (netns, device, network) in [(client, "client", "10.5.0"), (server, "server", "10.7.0")] {
        node.join(device, netns, "eth0");
        node.address(device, &format!("{network}.1/30"));
        netns.address("eth0", &format!("{network}.2/30"));
        netns.ip(&format!("route add default via {network}.1"));
    }
    for (netns, network, via) in [
        (client, SOURCES, "10.5.0.2"),
        (server, ENDPOINTS, "10.7.0.2"),
    ] {
        netns.ip(&format!("route add local {network} dev lo"));
        node.ip(&format!("route add {network} via {via}"));
    }
}
