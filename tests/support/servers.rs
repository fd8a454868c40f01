//! Small servers that say who they are and who asked, and clients that say how it went.
//!
//! Each server is a thread inside a namespace; no external program takes part, so a test sees
//! exactly the packets it caused.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};
use tokio::sync::oneshot;

use super::netns::{Netns, move_into};

/// Longer than one retransmitted SYN (1 s), so that a single lost packet is not taken for a drop.
const PATIENCE: Duration = Duration::from_millis(2500);

/// Port of the discard protocol: no server of these tests has it.
const DISCARD: u16 = 9;

/// What a client met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A server answered: its name, and the client's address as the server saw it.
    Answer {
        /// The name the server was started with.
        server: String,
        /// The source address of the packet that arrived.
        peer: IpAddr,
    },
    /// Turned away at once (connection refused).
    Refused,
    /// No answer of any kind.
    TimedOut,
    /// Something else, such as no route.
    Failed(String),
}

impl Reply {
    /// The server that answered; anything else is an error that tells what happened.
    pub fn server(&self) -> Result<&str, String> {
        match self {
            Self::Answer { server, .. } => Ok(server),
            other => Err(format!("no answer: {other:?}")),
        }
    }

    /// The client's address as the server saw it.
    #[track_caller]
    pub fn peer(&self) -> IpAddr {
        match self {
            Self::Answer { peer, .. } => *peer,
            other => panic!("no answer: {other:?}"),
        }
    }
}

/// A server on one address, TCP and UDP alike. Dropping it closes the sockets.
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Binds in `netns`; when this returns, clients can connect.
    pub fn start(netns: &Netns, name: &str, address: SocketAddr) -> Self {
        let (path, name) = (netns.path(), name.to_owned());
        let (stop, stopped) = oneshot::channel();
        let (bound, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            move_into(&path);
            serve(&name, address, stopped, &bound);
        });
        let bound = ready.recv().expect("the server's thread reports");
        bound.unwrap_or_else(|error| panic!("cannot listen on {address}: {error}"));
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn serve(
    name: &str,
    address: SocketAddr,
    mut stopped: oneshot::Receiver<()>,
    bound: &std::sync::mpsc::Sender<io::Result<()>>,
) {
    let sockets = async {
        Ok::<_, io::Error>((
            TcpListener::bind(address).await?,
            UdpSocket::bind(address).await?,
        ))
    };
    let (tcp, udp) = match sockets.await {
        Ok(sockets) => sockets,
        Err(error) => return drop(bound.send(Err(error))),
    };
    let _ = bound.send(Ok(()));
    let mut datagram = [0; 64];
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Ok((mut stream, peer)) = tcp.accept() => {
                let _ = stream.write_all(format!("{name} {}", peer.ip()).as_bytes()).await;
            }
            Ok((_, peer)) = udp.recv_from(&mut datagram) => {
                let _ = udp.send_to(format!("{name} {}", peer.ip()).as_bytes(), peer).await;
            }
        }
    }
    // Closing is not enough: a program that another test is just starting has copies of the sockets
    // until it is executed. A connection would be reset, not refused, and a datagram be received. A
    // UDP socket that is connected receives from one peer only, which does not exist.
    let _ = shutdown(tcp.as_raw_fd(), Shutdown::Both);
    let _ = udp.connect(SocketAddr::new(address.ip(), DISCARD)).await;
}

/// How a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One connection.
    Tcp,
    /// One datagram each way.
    Udp,
}

/// Connects from inside a namespace and reads the answer.
pub fn tcp_request(netns: &Netns, to: SocketAddr) -> Reply {
    netns.enter(|| request(Transport::Tcp, to))
}

/// Sends one datagram from inside a namespace and reads the answer.
pub fn udp_request(netns: &Netns, to: SocketAddr) -> Reply {
    netns.enter(|| request(Transport::Udp, to))
}

#[tokio::main(flavor = "current_thread")]
async fn request(transport: Transport, to: SocketAddr) -> Reply {
    ask(transport, to, PATIENCE).await.0
}

/// Asks once, and tells the address that the client asked from if it came to that. To be run in the
/// client's namespace.
pub async fn ask(
    transport: Transport,
    to: SocketAddr,
    patience: Duration,
) -> (Reply, Option<IpAddr>) {
    let mut own = None;
    let exchange = async {
        match transport {
            Transport::Tcp => tcp(to, &mut own).await,
            Transport::Udp => udp(to, &mut own).await,
        }
    };
    let reply = match tokio::time::timeout(patience, exchange).await {
        Err(_) => Reply::TimedOut,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Reply::Refused,
        Ok(Err(error)) => Reply::Failed(error.to_string()),
        Ok(Ok(text)) => understood(&text),
    };
    (reply, own)
}

fn understood(text: &str) -> Reply {
    match text
        .split_once(' ')
        .map(|(name, peer)| (name, peer.parse()))
    {
        Some((name, Ok(peer))) => Reply::Answer {
            server: name.to_owned(),
            peer,
        },
        _ => Reply::Failed(format!("odd answer `{text}`")),
    }
}

async fn tcp(to: SocketAddr, own: &mut Option<IpAddr>) -> io::Result<String> {
    let socket = if to.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    let mut stream = socket.connect(to).await?;
    *own = Some(stream.local_addr()?.ip());
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

async fn udp(to: SocketAddr, own: &mut Option<IpAddr>) -> io::Result<String> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(to).await?;
    *own = Some(socket.local_addr()?.ip());
    // Both a silent and a loud rule in this namespace say so here; only what follows tells which.
    match socket.send(b"who?").await {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        sent => drop(sent?),
    }
    let mut answer = [0; 128];
    let length = socket.recv(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
