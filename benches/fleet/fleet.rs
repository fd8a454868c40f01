//! Many processes of one program, as if each had a node of its own.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::shared::scrape::Sample;
use crate::shared::usage::Usage;
use crate::stand_in;
use crate::subject::Subject;
use crate::support::http;
use crate::support::kube::ControlPlane;
use crate::support::netns::Netns;
use crate::support::objects;
use crate::support::process::Process;

/// All of them start at once on two CPUs.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Each has two servers in the namespace that they share.
const HEALTH_PORTS: u16 = 11_000;
const METRICS_PORTS: u16 = 21_000;
/// Restores cost the machine, not the server, and each start a process: none for each change. The
/// stand-ins keep no rules, so the rules must not be checked.
const SELDOM: [&str; 2] = [
    "--iptables-min-sync-period=10s",
    "--iptables-sync-period=1h",
];

/// The processes. Dropping it kills them.
pub struct Fleet {
    processes: Vec<Process>,
    _folders: [TempDir; 2],
}

/// The Nodes that they believe to be.
pub fn nodes(watchers: usize) -> Vec<Value> {
    let node = |number| {
        let mut node = objects::node("10.200.0.2", "fd00:200::2");
        node["metadata"]["name"] = name(number).into();
        node
    };
    (0..watchers).map(node).collect()
}

impl Fleet {
    /// Starts all of them, without waiting for any.
    pub fn start(control: &ControlPlane, node: &Netns, subject: Subject, watchers: usize) -> Self {
        let (bin, logs) = (stand_in::programs(), tempfile::tempdir().expect("a folder"));
        let mut path = OsString::from("PATH=");
        path.push(bin.path());
        let kubeconfig = format!("--kubeconfig={}", control.kubeconfig().display());
        let program = subject.command();
        let numbers = program.iter().flat_map(|program| {
            let processes = (0..watchers).map(move |number| (program, number));
            processes.collect::<Vec<_>>()
        });
        let start = |(program, number): (&Vec<OsString>, usize)| {
            let mut command = node.command("env");
            command.arg(&path).args(program).arg(&kubeconfig);
            command.args([
                format!("--hostname-override={}", name(number)),
                format!("--healthz-bind-address={}", local(HEALTH_PORTS, number)),
                format!("--metrics-bind-address={}", local(METRICS_PORTS, number)),
                "--cluster-cidr=10.4.0.0/14".to_owned(),
            ]);
            command.args(SELDOM);
            let log = logs.path().join(name(number));
            Process::start(&name(number), &mut command, &log)
        };
        Self {
            processes: numbers.map(start).collect(),
            _folders: [bin, logs],
        }
    }

    /// Waits until each has told the stand-ins of all Services.
    pub fn wait_until_synced(&mut self, node: &Netns) {
        let began = Instant::now();
        for (number, process) in self.processes.iter_mut().enumerate() {
            while !Sample::of(&http::metrics(node, local(METRICS_PORTS, number))).is_synced() {
                process.assert_running();
                assert!(began.elapsed() < PATIENCE, "{} is not synced", name(number));
                thread::sleep(Duration::from_millis(200));
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// CPU of all so far, in seconds, without that of the stand-ins.
    pub fn cpu(&self) -> f64 {
        // The sum of nothing would be -0.
        self.usages().fold(0.0, |all, usage| all + usage.own_cpu)
    }

    /// The largest resident memory that each had so far, all together, in MiB.
    pub fn peak_rss(&self) -> f64 {
        self.usages().fold(0.0, |all, usage| all + usage.peak_rss)
    }

    /// Resident memory of all, in MiB. What they share counts for each.
    pub fn rss(&self) -> f64 {
        self.usages().fold(0.0, |all, usage| all + usage.rss)
    }

    fn usages(&self) -> impl Iterator<Item = Usage> {
        self.processes.iter().map(|process| Usage::of(process.id()))
    }
}

fn name(number: usize) -> String {
    format!("fleet-{number}")
}

fn local(first: u16, number: usize) -> SocketAddr {
    let port = first + u16::try_from(number).expect("as many ports");
    (Ipv4Addr::LOCALHOST, port).into()
}
