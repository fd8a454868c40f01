//! One Service with one endpoint on the node itself, and a client that connects to it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::json;

use crate::support::api::Api;
use crate::support::netns::Netns;
use crate::support::objects;

pub const CLUSTER_IP: &str = "10.96.255.1";
const ENDPOINT: &str = "10.4.9.9";
const PORT: u16 = 8080;

/// Far longer than a connection on a busy machine takes. Without rules, none takes any time: it is
/// refused.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two connections.
const PAUSE: Duration = Duration::from_millis(2);

/// The Service that the client connects to.
pub fn create_service(api: &Api) {
    let service = objects::service(
        "probe",
        json!({"clusterIP": CLUSTER_IP, "ports": [{"name": "http", "port": 80, "targetPort": PORT}]}),
    );
    let mut slice = objects::slice(&service, &[ENDPOINT]);
    slice["ports"] = json!([{"name": "http", "port": PORT, "protocol": "TCP"}]);
    api.apply(&service);
    api.apply(&slice);
}

/// Gives the node the endpoint, and the Service's address: without rules, connections come to a
/// port of the node where no program listens, and are refused at once.
pub fn prepare(netns: &Netns) {
    netns.address("lo", &format!("{ENDPOINT}/32"));
    netns.address("lo", &format!("{CLUSTER_IP}/32"));
    // A connection from a port that was used lately would go where that one went, whatever the
    // rules are by now.
    netns.sysctl("ipv4/ip_local_port_range", "1024 65535");
    netns.sysctl("netfilter/nf_conntrack_tcp_timeout_close", "1");
}

/// Whether connections succeed, from one change to the next.
#[derive(Debug, Clone, Copy)]
struct Turn {
    at: Instant,
    is_served: bool,
}

/// Runs `work` while the client connects all the time.
pub fn with_client<T>(netns: &Netns, work: impl FnOnce(&Client) -> T) -> T {
    let (tell, turns) = channel();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| netns.enter(|| connect_until(&is_over, &tell)));
        let client = Client { turns };
        let result = work(&client);
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

fn connect_until(is_over: &AtomicBool, tell: &Sender<Turn>) {
    let listener = TcpListener::bind((ENDPOINT, PORT)).expect("listen");
    listener.set_nonblocking(true).unwrap();
    let address = SocketAddr::new(CLUSTER_IP.parse().unwrap(), 80);
    let mut was_served = None;
    while !is_over.load(Ordering::Relaxed) {
        let at = Instant::now();
        let stream = TcpStream::connect_timeout(&address, TIMEOUT);
        let is_served = stream.is_ok();
        // Reset at its end, which conntrack forgets within a second.
        if let Ok(stream) = &stream {
            let reset = libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            setsockopt(stream, sockopt::Linger, &reset).expect("set SO_LINGER");
        }
        drop(stream);
        while listener.accept().is_ok() {}
        if was_served != Some(is_served) {
            was_served = Some(is_served);
            let _ = tell.send(Turn { at, is_served });
        }
        thread::sleep(PAUSE);
    }
}

/// What the client has seen.
pub struct Client {
    turns: Receiver<Turn>,
}

impl Client {
    /// Waits until connections succeed.
    pub fn wait_until_served(&self, patience: Duration) {
        let end = Instant::now() + patience;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let turn = self.turns.recv_timeout(rest);
            if turn.expect("the Service is served in time").is_served {
                return;
            }
        }
    }

    /// Forgets what was seen so far.
    pub fn forget(&self) {
        while self.turns.try_recv().is_ok() {}
    }

    /// Time from the first connection that fails to the first one that succeeds again; `None` if
    /// that does not come in time.
    pub fn outage(&self, patience: Duration) -> Option<Duration> {
        let end = Instant::now() + patience;
        let mut began = None;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            // A repair that is faster than one connection is not seen at all.
            let rest = if began.is_none() {
                rest.min(Duration::from_secs(3))
            } else {
                rest
            };
            match (self.turns.recv_timeout(rest), began) {
                (Ok(turn), None) if !turn.is_served => began = Some(turn.at),
                (Ok(turn), Some(began)) if turn.is_served => return Some(turn.at - began),
                (Ok(_), _) => {}
                (Err(_), None) => return Some(Duration::ZERO),
                (Err(_), Some(_)) => return None,
            }
        }
    }
}
