//! The programs that are compared, each in a node namespace of its own.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use plotters::style::RGBColor;
use serde::{Deserialize, Serialize};

use super::scrape::Sample;
use super::usage::Usage;
use crate::support::daemon::{Backend, Daemon, Program};
use crate::support::http;
use crate::support::kube::ControlPlane;
use crate::support::lab::CLUSTER_CIDR;
use crate::support::netns::Netns;
use crate::support::process::run;

/// kube-proxy needs minutes for the first rules of a large cluster on nft.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// A program with its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// kube-proxy as kubeadm runs it
    KubeProxy,
    /// kube-proxy in its nftables mode, which uses neither backend of iptables
    KubeProxyNftables,
    /// deltaproxy with the same flags
    Deltaproxy,
    /// deltaproxy with kube-proxy's fixed second between two syncs
    #[value(name = "deltaproxy-1s")]
    #[serde(rename = "deltaproxy-1s")]
    Deltaproxy1s,
    /// deltaproxy without any pause between two syncs
    #[value(name = "deltaproxy-0s")]
    #[serde(rename = "deltaproxy-0s")]
    Deltaproxy0s,
}

impl Subject {
    /// The color of its lines, the same in the plots of all benches. People who do not
    /// see red and green apart can tell them apart, too.
    pub const fn color(self) -> RGBColor {
        match self {
            Self::KubeProxy => RGBColor(0xd5, 0x5e, 0x00),
            Self::KubeProxyNftables => RGBColor(0xcc, 0x79, 0xa7),
            Self::Deltaproxy1s => RGBColor(0x56, 0xb4, 0xe9),
            Self::Deltaproxy0s => RGBColor(0x00, 0x9e, 0x73),
            Self::Deltaproxy => RGBColor(0x00, 0x72, 0xb2),
        }
    }

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeProxy => "kube-proxy",
            Self::KubeProxyNftables => "kube-proxy-nftables",
            Self::Deltaproxy => "deltaproxy",
            Self::Deltaproxy1s => "deltaproxy-1s",
            Self::Deltaproxy0s => "deltaproxy-0s",
        }
    }

    fn program(self) -> Program {
        match self {
            Self::KubeProxy | Self::KubeProxyNftables => Program::kube_proxy(),
            _ => Program::Deltaproxy,
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::KubeProxy | Self::Deltaproxy => &[],
            Self::KubeProxyNftables => &["--proxy-mode=nftables"],
            Self::Deltaproxy1s => &["--iptables-min-sync-period=1s"],
            Self::Deltaproxy0s => &["--iptables-min-sync-period=0s"],
        }
    }
}

/// A node where one program runs at a time.
pub struct Node {
    netns: Netns,
    backend: Backend,
    subject: Subject,
    flags: [String; 2],
}

impl Node {
    /// An empty one on the control plane's network.
    pub fn new(control: &ControlPlane, backend: Backend, subject: Subject) -> Self {
        let netns = Netns::new("versus");
        control.attach(&netns, 2);
        netns.forward();
        Self {
            netns,
            backend,
            subject,
            flags: control.flags(),
        }
    }

    /// Starts the program and waits until both families have been synced once.
    pub fn start(&self) -> (Running<'_>, Duration) {
        let [kubeconfig, hostname] = &self.flags;
        let mut args = vec![kubeconfig.as_str(), hostname, CLUSTER_CIDR];
        args.extend(self.subject.flags());
        let started = Instant::now();
        let daemon =
            Daemon::start_program(&self.subject.program(), &self.netns, self.backend, &args);
        let mut running = Running { node: self, daemon };
        while !running.sample().is_synced() {
            running.daemon.assert_running();
            assert!(started.elapsed() < PATIENCE, "no rules after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        (running, started.elapsed())
    }

    /// Its namespace.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Runs the backend's `iptables` on the nat table, which waits for the lock, and returns what
    /// it prints.
    pub fn iptables_nat(&self, args: &[String]) -> String {
        let name = format!("iptables-{}", self.backend.name());
        run(self
            .netns
            .command(name)
            .args(["-w", "-t", "nat"])
            .args(args))
    }

    /// How many endpoint chains the kernel has, to see that the work was done.
    pub fn endpoint_chains(&self) -> usize {
        let name = match self.subject {
            Subject::KubeProxyNftables => return 0,
            _ => format!("iptables-{}-save", self.backend.name()),
        };
        let saved = run(self.netns.command(name).args(["-t", "nat"]));
        saved
            .lines()
            .filter(|line| line.starts_with(":KUBE-SEP-"))
            .count()
    }
}

/// The program at work.
pub struct Running<'n> {
    node: &'n Node,
    daemon: Daemon,
}

impl Running<'_> {
    /// Its metrics now, as they are served.
    pub fn page(&self) -> String {
        http::metrics(&self.node.netns, Daemon::METRICS)
    }

    /// Scrapes the metrics.
    pub fn sample(&self) -> Sample {
        Sample::of(&self.page())
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        Usage::of(self.daemon.id())
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    /// Ends it as a kubelet would.
    pub fn stop(mut self) {
        self.daemon.terminate();
    }
}
