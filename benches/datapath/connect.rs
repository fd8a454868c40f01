//! Connections that a client opens, each from a port of its own.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// The client has this network, with all its addresses.
pub const SOURCES: &str = "10.6.0.0/16";
const FIRST_SOURCE: u32 = u32::from_be_bytes([10, 6, 0, 1]);

/// Ports of one address that are used.
const PORTS: u32 = 60_000;
const FIRST_PORT: u32 = 2_000;

/// More than one SYN that is sent again.
const TIMEOUT: i64 = 3;

/// Addresses and ports to connect from.
///
/// A port that was used lately would reach the connection that conntrack remembers of it, and the
/// kernel's own choice takes longer the more of them are in use.
pub struct Sources {
    next: u32,
}

impl Sources {
    /// Those of one thread: 256 addresses.
    pub fn of(thread: u8) -> Self {
        Self {
            next: u32::from(thread) * 256 * PORTS,
        }
    }

    fn next(&mut self) -> SocketAddrV4 {
        let (address, port) = (self.next / PORTS, self.next % PORTS);
        self.next += 1;
        let port = u16::try_from(FIRST_PORT + port).unwrap();
        SocketAddrV4::new(Ipv4Addr::from(FIRST_SOURCE + address), port)
    }

    /// Connects and closes with a reset, which leaves no TIME_WAIT. Returns how long `connect()`
    /// took.
    pub fn connect(&mut self, to: SocketAddrV4) -> nix::Result<Duration> {
        let socket = socket(
            AddressFamily::Inet,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        let reset = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&socket, sockopt::Linger, &reset)?;
        setsockopt(&socket, sockopt::SendTimeout, &TimeVal::seconds(TIMEOUT))?;
        bind(socket.as_raw_fd(), &SockaddrIn::from(self.next()))?;
        let to = SockaddrIn::from(to);
        let start = Instant::now();
        connect(socket.as_raw_fd(), &to)?;
        Ok(start.elapsed())
    }
}
