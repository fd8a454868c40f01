//! The kernel's table of connections: looks through its UDP flows and deletes those that are stale.
//!
//! Apart because it is an interface of its own, and the only place here that may be at it for
//! seconds: there can be millions of entries. They are read as they come and never held. How a look
//! goes is said in [`conntrack_walk`](super::conntrack_walk), without sockets.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/conntrack.go (v1.36)

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::conntrack_walk::{Kernel, Walker};
use super::netlink::{open, receive, send};
use crate::conntrack::{Filter, Flow};
use crate::net::IpFamily;

/// Why flows could not be looked through, split by what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// It would be the same next time: the kernel has no such table, or not for us.
    #[error("the kernel does not show its connections: {}", .0.desc())]
    Unavailable(Errno),
    /// Next time may be better: the look was cut short, or flows in hardware cannot be deleted yet.
    #[error("stale connections may be left: {}", .0.desc())]
    CutShort(Errno),
}

impl From<Errno> for FlowError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EPERM
            | Errno::EACCES
            | Errno::EINVAL
            | Errno::EOPNOTSUPP
            | Errno::EPROTONOSUPPORT
            | Errno::EAFNOSUPPORT => Self::Unavailable(errno),
            _ => Self::CutShort(errno),
        }
    }
}

/// A table of flows. A trait so that what follows syncs can be tested without a kernel.
pub trait FlowTable {
    /// Deletes the UDP flows of a family that pass one of `filters` and are stale. Says how many
    /// were deleted, also if it then came to a bad end. May take seconds.
    fn sweep(
        &mut self,
        family: IpFamily,
        filters: &[Filter],
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> (u64, Result<(), FlowError>);
}

/// The kernel's own, of the network namespace that this process is in.
#[derive(Debug, Default)]
pub struct Conntrack(Walker<Netfilter>);

impl FlowTable for Conntrack {
    fn sweep(
        &mut self,
        family: IpFamily,
        filters: &[Filter],
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> (u64, Result<(), FlowError>) {
        self.0.sweep(family, filters, is_stale)
    }
}

/// The real one, over netlink.
#[derive(Debug, Default)]
struct Netfilter;

impl Kernel for Netfilter {
    type Socket = OwnedFd;

    fn open(&mut self) -> Result<OwnedFd, Errno> {
        open()
    }

    fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
        send(socket, bytes)
    }

    fn receive<'a>(&mut self, socket: &OwnedFd, datagram: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        receive(socket, datagram)
    }
}
