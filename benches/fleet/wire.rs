//! What the kernel counts of the traffic between the fleet and the server.
//!
//! Apart from what the server counts because only this has headers, acknowledgements and all that
//! TLS adds.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::kube::ControlPlane;
use crate::support::netns::Netns;

/// Bookmarks and pings: fewer bytes for each watcher in a second are silence.
const SILENCE: u64 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// Counters, in bytes but for the last.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    /// From the server.
    pub sent: u64,
    /// To the server.
    pub received: u64,
    /// Connections that programs in the server's namespace accepted; few are not the fleet's.
    pub accepted: u64,
}

impl Wire {
    /// The counters now.
    pub fn read(control: &ControlPlane, node: &Netns) -> Self {
        let (sent, received) = eth0(node);
        Self {
            sent,
            received,
            accepted: accepted(&control.netns().enter(|| read("snmp"))),
        }
    }
}

/// Waits for a second of silence on the wire.
pub fn wait_for_silence(node: &Netns, watchers: usize) {
    let silence = SILENCE * u64::try_from(watchers.max(20)).unwrap();
    let mut before = eth0(node).0;
    loop {
        thread::sleep(SECOND);
        let now = eth0(node).0;
        if now - before < silence {
            return;
        }
        before = now;
    }
}

/// Does some work, and says how many bytes at most the server sent in a second meanwhile.
pub fn at_most<T>(node: &Netns, work: impl FnOnce() -> T) -> (T, f64) {
    thread::scope(|scope| {
        // Closed when the work is done, or has panicked.
        let (open, closed) = mpsc::channel::<()>();
        let looking = scope.spawn(move || {
            let (mut before, mut at, mut most) = (eth0(node).0, Instant::now(), 0.0_f64);
            while closed.recv_timeout(SECOND) == Err(RecvTimeoutError::Timeout) {
                let (now, took) = (eth0(node).0, at.elapsed());
                most = most.max((now - before) as f64 / took.as_secs_f64());
                (before, at) = (now, Instant::now());
            }
            most
        });
        let done = work();
        drop(open);
        (done, looking.join().expect("only looks"))
    })
}

/// Bytes from the server, and to it.
fn eth0(node: &Netns) -> (u64, u64) {
    let devices = node.enter(|| read("dev"));
    let line = devices.lines().find_map(|line| {
        let (device, counters) = line.split_once(':')?;
        (device.trim() == "eth0").then_some(counters)
    });
    let counters: Vec<&str> = line.expect("eth0").split_whitespace().collect();
    (counters[0].parse().unwrap(), counters[8].parse().unwrap())
}

/// Of the namespace that the calling thread is in.
fn read(name: &str) -> String {
    fs::read_to_string(format!("/proc/thread-self/net/{name}")).expect("proc")
}

/// A line with names, and one with values.
fn accepted(snmp: &str) -> u64 {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let names = lines.next().expect("names").split(' ');
    let values = lines.next().expect("values").split(' ');
    let found = names
        .zip(values)
        .find_map(|(name, value)| (name == "PassiveOpens").then_some(value));
    found.expect("a counter").parse().unwrap()
}
