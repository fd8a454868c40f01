//! Deletes stale UDP entries from the conntrack table.
//!
//! There can be millions of entries, so they are read as a stream and never held. The sweep is
//! generic over [`Transport`], so that tests can play kernels that are older, busier or stricter
//! than the one at hand.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/conntrack.go (v1.37)
//! Linux: net/netfilter/nf_conntrack_netlink.c, net/netlink/af_netlink.c

use std::fmt::Debug;
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::conntrack_message::{ConntrackReply, Deletions, dump_request, replies};
use super::socket;
use crate::conntrack::{Filter, Flow};
use crate::net::IpFamily;

/// The kernel fills at most 32 KiB at once; a datagram that does not fit is an error.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Maximum dumps per filter if the table changes during each.
///
/// Upstream: pkg/proxy/conntrack/conntrack.go, `ListEntries` (v1.37)
const TRIES: u32 = 5;

/// Maximum entries per batch of deletions: all replies have to fit into the socket's buffer, of
/// whose 200,000 bytes each takes some 800.
const MOST_DELETIONS: usize = 64;

/// Failure of a sweep, by the action that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// A retry would fail as well: the kernel has no conntrack table, or access is denied.
    #[error("cannot read the conntrack table: {}", .0.desc())]
    Unavailable(Errno),
    /// A retry may succeed: the dump was interrupted, or entries offloaded to hardware could not
    /// be deleted.
    #[error("stale conntrack entries may remain: {}", .0.desc())]
    Incomplete(Errno),
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
            _ => Self::Incomplete(errno),
        }
    }
}

/// Conntrack table. A trait, so that callers can be tested without a kernel.
pub trait FlowTable {
    /// Deletes the stale UDP entries of a family that match one of `filters`. Returns the number of
    /// deleted entries, also after an error. May take seconds.
    fn sweep(
        &mut self,
        family: IpFamily,
        filters: &[Filter],
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> (u64, Result<(), FlowError>);
}

/// Conntrack table of the network namespace of this process.
#[derive(Debug, Default)]
pub struct Conntrack(Sweeper<Netlink>);

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

trait Transport {
    type Socket: Debug;

    /// Opens a socket without pending replies.
    fn open(&mut self) -> Result<Self::Socket, Errno>;

    fn send(&mut self, socket: &Self::Socket, bytes: &[u8]) -> Result<(), Errno>;

    /// Receives the next datagram. Never blocks: `EAGAIN` if there is none.
    fn receive<'a>(
        &mut self,
        socket: &Self::Socket,
        datagram: &'a mut [u8],
    ) -> Result<&'a [u8], Errno>;
}

#[derive(Debug, Default)]
struct Netlink;

impl Transport for Netlink {
    type Socket = OwnedFd;

    fn open(&mut self) -> Result<OwnedFd, Errno> {
        socket::open()
    }

    fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
        socket::send(socket, bytes)
    }

    fn receive<'a>(&mut self, socket: &OwnedFd, datagram: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        socket::receive(socket, datagram)
    }
}

/// Sweeps the conntrack table of a kernel.
#[derive(Debug)]
struct Sweeper<T: Transport> {
    transport: T,
    /// Kept between sweeps; closed after an error, when replies may still be pending.
    sockets: Option<Sockets<T::Socket>>,
    filtering: Filtering,
}

#[derive(Debug)]
struct Sockets<S> {
    dump: S,
    delete: S,
}

/// Side that applies the filters. `is_stale` decides in either case, because kernels before Linux
/// 5.8 ignore filters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Filtering {
    /// Dumps are requested with a filter.
    #[default]
    Kernel,
    /// The kernel rejected a filter: one dump of everything replaces those of all filters.
    Client,
}

#[derive(Debug, Default)]
struct Counts {
    deleted: u64,
    /// Entries that cannot be deleted now, because their packets bypass the kernel's table.
    offloaded: u64,
}

/// Completeness of a dump that reached its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dump {
    Complete,
    /// The table changed meanwhile, so that entries may be missing.
    Interrupted,
}

impl<T: Transport + Default> Default for Sweeper<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Transport> Sweeper<T> {
    const fn new(transport: T) -> Self {
        Self {
            transport,
            sockets: None,
            filtering: Filtering::Kernel,
        }
    }

    fn sweep(
        &mut self,
        family: IpFamily,
        filters: &[Filter],
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> (u64, Result<(), FlowError>) {
        let mut counts = Counts::default();
        let mut result = Ok(());
        for filter in filters {
            result = self.sweep_filter(family, *filter, is_stale, &mut counts);
            // Without filters in the kernel, the first dump has covered all of them.
            if result.is_err() || self.filtering == Filtering::Client {
                break;
            }
        }
        if result.is_err() {
            self.sockets = None;
        }
        let result = match counts.offloaded {
            0 => result,
            _ => result.and(Err(FlowError::Incomplete(Errno::EBUSY))),
        };
        (counts.deleted, result)
    }

    fn sweep_filter(
        &mut self,
        family: IpFamily,
        filter: Filter,
        is_stale: &mut dyn FnMut(&Flow) -> bool,
        counts: &mut Counts,
    ) -> Result<(), FlowError> {
        for _ in 0..TRIES {
            let filter = (self.filtering == Filtering::Kernel).then_some(filter);
            match self.dump(&dump_request(family, filter), family, is_stale, counts) {
                Ok(Dump::Complete) => return Ok(()),
                Ok(Dump::Interrupted) => {}
                Err(Errno::EINVAL | Errno::EOPNOTSUPP) if filter.is_some() => {
                    self.filtering = Filtering::Client;
                    self.sockets = None;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(FlowError::Incomplete(Errno::EINTR))
    }

    /// Reads one dump and deletes its stale entries. Never blocks: the kernel prepares the next
    /// datagram before the reading of the previous one returns.
    fn dump(
        &mut self,
        request: &[u8],
        family: IpFamily,
        is_stale: &mut dyn FnMut(&Flow) -> bool,
        counts: &mut Counts,
    ) -> Result<Dump, Errno> {
        let transport = &mut self.transport;
        let sockets = match &self.sockets {
            Some(sockets) => sockets,
            None => self.sockets.insert(Sockets {
                dump: transport.open()?,
                delete: transport.open()?,
            }),
        };
        transport.send(&sockets.dump, request)?;
        let mut dump = Dump::Complete;
        let mut deletions = Deletions::new(family);
        let mut datagram = vec![0; DATAGRAM_BYTES];
        loop {
            let received = transport.receive(&sockets.dump, &mut datagram)?;
            for message in replies(received) {
                let message = message.ok_or(Errno::EBADMSG)?;
                if message.is_interrupted {
                    dump = Dump::Interrupted;
                }
                match message.reply {
                    ConntrackReply::Entry(entry) if is_stale(&entry.flow) => deletions.add(&entry),
                    ConntrackReply::Entry(_) | ConntrackReply::Ignored => {}
                    ConntrackReply::End(Ok(())) => {
                        delete(transport, &sockets.delete, &mut deletions, counts)?;
                        return Ok(dump);
                    }
                    ConntrackReply::End(Err(errno)) => return Err(errno),
                }
                if deletions.len() == MOST_DELETIONS {
                    delete(transport, &sockets.delete, &mut deletions, counts)?;
                }
            }
            delete(transport, &sockets.delete, &mut deletions, counts)?;
        }
    }
}

/// Sends a batch of deletions, counts its replies, and clears it.
fn delete<T: Transport>(
    transport: &mut T,
    socket: &T::Socket,
    deletions: &mut Deletions,
    counts: &mut Counts,
) -> Result<(), Errno> {
    let mut replied = 0;
    let mut datagram = [0; 4096];
    if deletions.len() > 0 {
        transport.send(socket, deletions.bytes())?;
    }
    while replied < deletions.len() {
        for message in replies(transport.receive(socket, &mut datagram)?) {
            match message.ok_or(Errno::EBADMSG)?.reply {
                ConntrackReply::End(Ok(())) => counts.deleted += 1,
                // The entry has expired meanwhile.
                ConntrackReply::End(Err(Errno::ENOENT)) => {}
                ConntrackReply::End(Err(Errno::EBUSY)) => counts.offloaded += 1,
                ConntrackReply::End(Err(errno)) => return Err(errno),
                ConntrackReply::Entry(_) | ConntrackReply::Ignored => continue,
            }
            replied += 1;
        }
    }
    deletions.clear();
    Ok(())
}

#[cfg(test)]
#[path = "tests/conntrack.rs"]
mod tests;
