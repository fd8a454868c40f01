//! The kernel's table of connections: looks through its UDP flows and deletes those that are stale.
//!
//! Apart because it is an interface of its own, and the only place here that may be at it for
//! seconds: there can be millions of entries. They are read as they come and never held.
//!
//! # Source
//!
//! Linux: net/netfilter/nf_conntrack_netlink.c, net/netlink/af_netlink.c
//! Upstream: pkg/proxy/conntrack/conntrack.go (v1.36)

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::conntrack_answer::{Answer, answers};
use super::conntrack_message::{Deletions, dump};
use super::netlink::{open, receive, send};
use crate::conntrack::{Filter, Flow};
use crate::net::IpFamily;

/// The kernel fills at most 32 KiB at once; what would be cut off is an error.
const DATAGRAM_BYTES: usize = 64 << 10;

/// How often a walk through the table is begun again because something came in between.
///
/// Upstream: pkg/proxy/conntrack/conntrack.go, `ListEntries` (v1.36)
const TRIES: u32 = 5;

/// How many entries are deleted at once: all answers have to fit into the socket's buffer, for
/// which each counts as some 800 of 200,000 bytes.
const MOST_DELETIONS: usize = 64;

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
pub struct Conntrack {
    /// Kept from sweep to sweep; closed after an error, when answers could still arrive.
    sockets: Option<Sockets>,
    filtering: Filtering,
}

#[derive(Debug)]
struct Sockets {
    dump: OwnedFd,
    delete: OwnedFd,
}

/// Who chooses the flows that a filter asks for. They are asked for all the same: a kernel before
/// Linux 5.8 does not look at what it does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Filtering {
    /// The kernel does, unless it ignores it.
    #[default]
    Kernel,
    /// It has refused to.
    Ours,
}

/// What has become of stale flows.
#[derive(Debug, Default)]
struct Tally {
    deleted: u64,
    /// Not to be deleted now, because their packets do not pass the kernel's table.
    offloaded: u64,
}

/// How a walk through the table ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    Whole,
    /// The kernel says that it may have missed some.
    Interrupted,
}

impl FlowTable for Conntrack {
    fn sweep(
        &mut self,
        family: IpFamily,
        filters: &[Filter],
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> (u64, Result<(), FlowError>) {
        let mut tally = Tally::default();
        let result = filters
            .iter()
            .try_for_each(|filter| self.sweep_one(family, *filter, is_stale, &mut tally));
        if result.is_err() {
            self.sockets = None;
        }
        let result = match tally.offloaded {
            0 => result,
            _ => result.and(Err(FlowError::CutShort(Errno::EBUSY))),
        };
        (tally.deleted, result)
    }
}

impl Conntrack {
    fn sweep_one(
        &mut self,
        family: IpFamily,
        filter: Filter,
        is_stale: &mut dyn FnMut(&Flow) -> bool,
        tally: &mut Tally,
    ) -> Result<(), FlowError> {
        for _ in 0..TRIES {
            let asked = (self.filtering == Filtering::Kernel).then_some(filter);
            match self.walk(&dump(family, asked), family, is_stale, tally) {
                Ok(Walk::Whole) => return Ok(()),
                Ok(Walk::Interrupted) => {}
                Err(Errno::EINVAL | Errno::EOPNOTSUPP) if asked.is_some() => {
                    self.filtering = Filtering::Ours;
                    self.sockets = None;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(FlowError::CutShort(Errno::EINTR))
    }

    /// One dump. The kernel has the next part of it ready before it returns from the reading of one,
    /// so there is never anything to wait for.
    fn walk(
        &mut self,
        request: &[u8],
        family: IpFamily,
        is_stale: &mut dyn FnMut(&Flow) -> bool,
        tally: &mut Tally,
    ) -> Result<Walk, Errno> {
        let sockets = match &self.sockets {
            Some(sockets) => sockets,
            None => self.sockets.insert(Sockets::open()?),
        };
        send(&sockets.dump, request)?;
        let mut walk = Walk::Whole;
        let mut deletions = Deletions::new(family);
        let mut datagram = vec![0; DATAGRAM_BYTES];
        loop {
            let received = receive(&sockets.dump, &mut datagram)?;
            for answer in answers(received) {
                let answer = answer.ok_or(Errno::EBADMSG)?;
                if answer.is_interrupted {
                    walk = Walk::Interrupted;
                }
                match answer.said {
                    Answer::Entry(entry) if is_stale(&entry.flow) => deletions.add(&entry),
                    Answer::Entry(_) | Answer::Foreign => {}
                    Answer::End(Ok(())) => {
                        sockets.delete(&mut deletions, tally)?;
                        return Ok(walk);
                    }
                    Answer::End(Err(errno)) => return Err(errno),
                }
                if deletions.len() == MOST_DELETIONS {
                    sockets.delete(&mut deletions, tally)?;
                }
            }
            sockets.delete(&mut deletions, tally)?;
        }
    }
}

impl Sockets {
    fn open() -> Result<Self, Errno> {
        Ok(Self {
            dump: open()?,
            delete: open()?,
        })
    }

    /// Deletes entries.
    fn delete(&self, deletions: &mut Deletions, tally: &mut Tally) -> Result<(), Errno> {
        let mut answered = 0;
        let mut datagram = [0; 4096];
        if deletions.len() > 0 {
            send(&self.delete, deletions.bytes())?;
        }
        while answered < deletions.len() {
            for answer in answers(receive(&self.delete, &mut datagram)?) {
                match answer.ok_or(Errno::EBADMSG)?.said {
                    Answer::End(Ok(())) => tally.deleted += 1,
                    // It has ended by itself.
                    Answer::End(Err(Errno::ENOENT)) => {}
                    Answer::End(Err(Errno::EBUSY)) => tally.offloaded += 1,
                    Answer::End(Err(errno)) => return Err(errno),
                    Answer::Entry(_) | Answer::Foreign => continue,
                }
                answered += 1;
            }
        }
        deletions.clear();
        Ok(())
    }
}
