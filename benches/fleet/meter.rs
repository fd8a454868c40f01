//! Everything that is counted, from one moment to another.
//!
//! Apart because reading costs, too: the server is asked for its metrics before its CPU is read at
//! the beginning and after it at the end, so that no phase pays for it.

use std::time::Instant;

use crate::counted::Counted;
use crate::figures::Phase;
use crate::fleet::Fleet;
use crate::shared::usage::Usage;
use crate::support::kube::ControlPlane;
use crate::support::netns::Netns;
use crate::wire::Wire;

/// The beginning of a phase.
pub struct Meter {
    counted: Counted,
    server: f64,
    store: f64,
    fleet: f64,
    wire: Wire,
    began: Instant,
}

/// Whether the server goes on from an earlier phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// It does.
    Running,
    /// It is about to be started, and has counted nothing.
    New,
}

impl Meter {
    /// Reads everything. A fleet that has not been started has used nothing.
    pub fn open(
        control: &ControlPlane,
        node: &Netns,
        fleet: Option<&Fleet>,
        server: Server,
    ) -> Self {
        let (counted, server) = match server {
            Server::Running => (Counted::read(control), cpu(control, SERVER)),
            Server::New => (Counted::default(), 0.0),
        };
        Self {
            counted,
            server,
            store: cpu(control, STORE),
            fleet: fleet.map_or(0.0, Fleet::cpu),
            wire: Wire::read(control, node),
            began: Instant::now(),
        }
    }

    /// Reads it again.
    pub fn close(self, control: &ControlPlane, node: &Netns, fleet: &Fleet) -> Phase {
        let seconds = self.began.elapsed().as_secs_f64();
        let (server_cpu, store_cpu) = (cpu(control, SERVER), cpu(control, STORE));
        let wire = Wire::read(control, node);
        let counted = Counted::read(control);
        Phase {
            seconds,
            server_cpu: server_cpu - self.server,
            store_cpu: store_cpu - self.store,
            fleet_cpu: fleet.cpu() - self.fleet,
            server_rss: usage(control, SERVER).rss,
            sent: wire.sent - self.wire.sent,
            received: wire.received - self.wire.received,
            most_sent: None,
            accepted: wire.accepted - self.wire.accepted,
            requests: counted.requests() - self.counted.requests(),
            watches: counted.watches,
        }
    }
}

/// As the kernel calls their processes.
pub const SERVER: &str = "kube-apiserver";
const STORE: &str = "etcd";

/// What the control plane's program of that name has used.
pub fn usage(control: &ControlPlane, program: &str) -> Usage {
    let mut pids = control.netns().pids().into_iter();
    let pid = pids.find(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim_end() == program
    });
    let pid = pid.unwrap_or_else(|| panic!("{program} does not run"));
    Usage::of(u32::try_from(pid.as_raw()).unwrap())
}

fn cpu(control: &ControlPlane, program: &str) -> f64 {
    usage(control, program).own_cpu
}
