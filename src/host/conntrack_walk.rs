//! How the kernel's table of connections is looked through: what is asked, again if need be, and
//! what its answers mean.
//!
//! Apart from [`conntrack`](super::conntrack), which has the sockets, so that a kernel can be
//! played that is older, busier or stricter than the one at hand.
//!
//! # Source
//!
//! Linux: net/netfilter/nf_conntrack_netlink.c, net/netlink/af_netlink.c

use std::fmt::Debug;

use nix::errno::Errno;

use super::FlowError;
use super::conntrack_answer::{Answer, answers};
use super::conntrack_message::{Deletions, dump};
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

/// Who is asked.
pub(super) trait Kernel {
    /// What questions and answers go through.
    type Socket: Debug;

    /// A new one, through which no answer is still to come.
    fn open(&mut self) -> Result<Self::Socket, Errno>;

    /// Asks.
    fn send(&mut self, socket: &Self::Socket, bytes: &[u8]) -> Result<(), Errno>;

    /// The next datagram of the answer. Never waits: `EAGAIN` if there is none.
    fn receive<'a>(
        &mut self,
        socket: &Self::Socket,
        datagram: &'a mut [u8],
    ) -> Result<&'a [u8], Errno>;
}

/// Looks through the table of a kernel.
#[derive(Debug)]
pub(super) struct Walker<K: Kernel> {
    kernel: K,
    /// Kept from sweep to sweep; closed after an error, when answers could still arrive.
    sockets: Option<Sockets<K::Socket>>,
    filtering: Filtering,
}

#[derive(Debug)]
struct Sockets<S> {
    dump: S,
    delete: S,
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

impl<K: Kernel + Default> Default for Walker<K> {
    fn default() -> Self {
        Self::new(K::default())
    }
}

impl<K: Kernel> Walker<K> {
    /// Has not asked anything yet.
    pub(super) const fn new(kernel: K) -> Self {
        Self {
            kernel,
            sockets: None,
            filtering: Filtering::Kernel,
        }
    }

    /// As [`FlowTable::sweep`](super::FlowTable::sweep) says.
    pub(super) fn sweep(
        &mut self,
        family: IpFamily,
        filters: &[Filter],
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> (u64, Result<(), FlowError>) {
        let mut tally = Tally::default();
        let mut result = Ok(());
        for filter in filters {
            result = self.sweep_one(family, *filter, is_stale, &mut tally);
            // Where we choose, one look is through everything.
            if result.is_err() || self.filtering == Filtering::Ours {
                break;
            }
        }
        if result.is_err() {
            self.sockets = None;
        }
        let result = match tally.offloaded {
            0 => result,
            _ => result.and(Err(FlowError::CutShort(Errno::EBUSY))),
        };
        (tally.deleted, result)
    }

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

    /// One dump. The kernel has the next part of it ready before it returns from the reading of
    /// one, so there is never anything to wait for.
    fn walk(
        &mut self,
        request: &[u8],
        family: IpFamily,
        is_stale: &mut dyn FnMut(&Flow) -> bool,
        tally: &mut Tally,
    ) -> Result<Walk, Errno> {
        let kernel = &mut self.kernel;
        let sockets = match &self.sockets {
            Some(sockets) => sockets,
            None => self.sockets.insert(Sockets {
                dump: kernel.open()?,
                delete: kernel.open()?,
            }),
        };
        kernel.send(&sockets.dump, request)?;
        let mut walk = Walk::Whole;
        let mut deletions = Deletions::new(family);
        let mut datagram = vec![0; DATAGRAM_BYTES];
        loop {
            let received = kernel.receive(&sockets.dump, &mut datagram)?;
            for answer in answers(received) {
                let answer = answer.ok_or(Errno::EBADMSG)?;
                if answer.is_interrupted {
                    walk = Walk::Interrupted;
                }
                match answer.said {
                    Answer::Entry(entry) if is_stale(&entry.flow) => deletions.add(&entry),
                    Answer::Entry(_) | Answer::Foreign => {}
                    Answer::End(Ok(())) => {
                        delete(kernel, &sockets.delete, &mut deletions, tally)?;
                        return Ok(walk);
                    }
                    Answer::End(Err(errno)) => return Err(errno),
                }
                if deletions.len() == MOST_DELETIONS {
                    delete(kernel, &sockets.delete, &mut deletions, tally)?;
                }
            }
            delete(kernel, &sockets.delete, &mut deletions, tally)?;
        }
    }
}

/// Deletes entries.
fn delete<K: Kernel>(
    kernel: &mut K,
    socket: &K::Socket,
    deletions: &mut Deletions,
    tally: &mut Tally,
) -> Result<(), Errno> {
    let mut answered = 0;
    let mut datagram = [0; 4096];
    if deletions.len() > 0 {
        kernel.send(socket, deletions.bytes())?;
    }
    while answered < deletions.len() {
        for answer in answers(kernel.receive(socket, &mut datagram)?) {
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

#[cfg(test)]
#[path = "tests/conntrack_walk.rs"]
mod tests;
