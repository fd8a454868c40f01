//! The server of all endpoints.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{Backlog, listen};

use crate::site::{Cpu, pin};
use crate::support::netns::{Netns, move_into};

pub const PORT: u16 = 8080;

/// Between two looks for new connections. To be woken by each would be part of its latency.
const PAUSE: Duration = Duration::from_micros(500);

/// Connections that wait to be accepted, as many as the kernel allows by default. With the 128 of
/// the standard library, clients at saturation fill the queue while the server sleeps, and wait a
/// second until they send their SYN again.
const BACKLOG: i32 = 4096;

/// Connections that are accepted at once, of the 1,024 files that a process may have open.
const AT_ONCE: usize = 256;

/// Accepts connections on a thread until it is dropped.
pub struct Server {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it, and returns when it listens.
    pub fn start(netns: &Netns) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (path, until) = (netns.path(), is_over.clone());
        let (tell, listens) = channel();
        let thread = thread::spawn(move || {
            move_into(&path);
            pin(Cpu::Last);
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).expect("listen");
            listen(&listener, Backlog::new(BACKLOG).unwrap()).unwrap();
            listener.set_nonblocking(true).unwrap();
            tell.send(()).unwrap();
            accept(&listener, &until);
        });
        listens.recv().expect("the server listens");
        Self {
            is_over,
            thread: Some(thread),
        }
    }
}

fn accept(listener: &TcpListener, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let accepted = std::iter::from_fn(|| listener.accept().ok());
        let accepted: Vec<TcpStream> = accepted.take(AT_ONCE).map(|(stream, _)| stream).collect();
        // By its end the clients have reset them, so that closing them sends nothing.
        if accepted.len() < AT_ONCE {
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
