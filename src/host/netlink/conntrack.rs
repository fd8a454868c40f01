//! Deletes stale UDP entries from the conntrack table, by netlink messages: dump and deletion
//! requests, and their replies.
//!
//! There can be millions of entries, so they are read as a stream and never held: copied is only
//! what identifies an entry to delete. The sweep is generic over [`Transport`], so that tests can
//! play kernels that are older, busier or stricter than the one at hand.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/conntrack.go (v1.37)
//! Linux: net/netfilter/nf_conntrack_netlink.c, net/netlink/af_netlink.c;
//! include/uapi/linux/netfilter/nfnetlink_conntrack.h; for filters net/netfilter/nf_internals.h

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::socket::{
    self, Attribute, Attributes, NFGENMSG, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST,
    NLMSG_DONE, NLMSG_ERROR, Received, attribute, family_number, message, messages, nested, pad,
    status,
};
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
pub type Conntrack = Sweeper<Netlink>;

/// Access to netlink sockets of one kind.
pub trait Transport {
    /// An open socket.
    type Socket: Debug;

    /// Opens a socket without pending replies.
    fn open(&mut self) -> Result<Self::Socket, Errno>;

    /// Sends one datagram.
    fn send(&mut self, socket: &Self::Socket, bytes: &[u8]) -> Result<(), Errno>;

    /// Receives the next datagram. Never blocks: `EAGAIN` if there is none.
    fn receive<'a>(
        &mut self,
        socket: &Self::Socket,
        datagram: &'a mut [u8],
    ) -> Result<&'a [u8], Errno>;
}

/// Netlink sockets of the network namespace of this process.
#[derive(Debug, Default)]
pub struct Netlink;

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

/// Conntrack table that is swept over netlink.
#[derive(Debug)]
pub struct Sweeper<T: Transport> {
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

impl<T: Transport> FlowTable for Sweeper<T> {
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
}

impl<T: Transport> Sweeper<T> {
    const fn new(transport: T) -> Self {
        Self {
            transport,
            sockets: None,
            filtering: Filtering::Kernel,
        }
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

/// The subsystem is the upper byte of the message type.
const NFNL_SUBSYS_CTNETLINK: u16 = 1 << 8;
const IPCTNL_MSG_CT_NEW: u16 = 0;
const IPCTNL_MSG_CT_GET: u16 = 1;
const IPCTNL_MSG_CT_DELETE: u16 = 2;

const NLMSG_OVERRUN: u16 = 4;

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_ID: u16 = 12;
const CTA_ZONE: u16 = 18;
const CTA_FILTER: u16 = 25;

const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;

const CTA_FILTER_ORIG_FLAGS: u16 = 1;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;

/// Parts of the tuple that a filter compares.
const BY_IP_DST: u32 = 1 << 1;
const BY_PROTO_NUM: u32 = 1 << 3;
const BY_PROTO_DST_PORT: u32 = 1 << 5;

const IPPROTO_UDP: u8 = 17;

/// Returns the request for a dump of all entries of a family, or of those that match a filter.
pub(in crate::host) fn dump_request(family: IpFamily, filter: Option<Filter>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let flags = NLM_F_REQUEST | NLM_F_DUMP;
    let kind = NFNL_SUBSYS_CTNETLINK | IPCTNL_MSG_CT_GET;
    message(&mut bytes, kind, flags, family_number(family), |bytes| {
        if let Some(filter) = filter {
            write_filter(bytes, filter);
        }
    });
    bytes
}

#[derive(Debug)]
pub(in crate::host) struct Deletions {
    family: IpFamily,
    bytes: Vec<u8>,
    count: usize,
}

impl Deletions {
    pub(in crate::host) const fn new(family: IpFamily) -> Self {
        Self {
            family,
            bytes: Vec::new(),
            count: 0,
        }
    }

    /// Adds an entry. The id makes sure that a newer entry with the same tuple is not deleted. The
    /// tuple is always present: a request without one would delete the whole table.
    pub(in crate::host) fn add(&mut self, entry: &ConntrackEntry<'_>) {
        let kind = NFNL_SUBSYS_CTNETLINK | IPCTNL_MSG_CT_DELETE;
        let (flags, family) = (NLM_F_REQUEST | NLM_F_ACK, family_number(self.family));
        message(&mut self.bytes, kind, flags, family, |bytes| {
            for attribute in entry.identity() {
                bytes.extend(attribute);
                pad(bytes);
            }
        });
        self.count += 1;
    }

    pub(in crate::host) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
}

fn write_filter(bytes: &mut Vec<u8>, filter: Filter) {
    let (ip, port) = match filter {
        Filter::Everything => (None, None),
        // For IPv6 addresses the kernel inverts the comparison: `ctnetlink_filter_match_tuple`,
        // seen up to Linux 6.18.
        Filter::To(SocketAddr::V6(to)) => (None, Some(to.port())),
        Filter::To(SocketAddr::V4(to)) => (Some(*to.ip()), Some(to.port())),
        Filter::ToPort(port) => (None, Some(port.get())),
    };
    nested(bytes, CTA_TUPLE_ORIG, |bytes| {
        if let Some(ip) = ip {
            nested(bytes, CTA_TUPLE_IP, |bytes| {
                attribute(bytes, CTA_IP_V4_DST, &ip.octets());
            });
        }
        nested(bytes, CTA_TUPLE_PROTO, |bytes| {
            attribute(bytes, CTA_PROTO_NUM, &[IPPROTO_UDP]);
            if let Some(port) = port {
                attribute(bytes, CTA_PROTO_DST_PORT, &port.to_be_bytes());
            }
        });
    });
    nested(bytes, CTA_FILTER, |bytes| {
        let ip = ip.map_or(0, |_| BY_IP_DST);
        let port = port.map_or(0, |_| BY_PROTO_DST_PORT);
        let flags = (ip | BY_PROTO_NUM | port).to_ne_bytes();
        attribute(bytes, CTA_FILTER_ORIG_FLAGS, &flags);
        attribute(bytes, CTA_FILTER_REPLY_FLAGS, &0_u32.to_ne_bytes());
    });
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::host) struct Message<'a> {
    pub(in crate::host) reply: ConntrackReply<'a>,
    /// The table changed during the dump, so that entries may be missing from it.
    pub(super) is_interrupted: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::host) enum ConntrackReply<'a> {
    /// A UDP entry.
    Entry(ConntrackEntry<'a>),
    /// An entry of another protocol, or another type of message.
    Ignored,
    /// End of a dump, or the status of a request.
    End(Result<(), Errno>),
}

/// A UDP entry, with the attributes that a deletion has to name.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::host) struct ConntrackEntry<'a> {
    pub(super) flow: Flow,
    /// Whole attribute as the kernel wrote it, like `id` and `zone`.
    tuple: &'a [u8],
    id: &'a [u8],
    /// Empty in the default zone.
    zone: &'a [u8],
}

/// Returns the messages of one datagram. `None`, which is the last item, stands for bytes that are
/// not a valid message.
pub(in crate::host) fn replies(datagram: &[u8]) -> impl Iterator<Item = Option<Message<'_>>> {
    let mut messages = messages(datagram);
    let mut is_over = false;
    std::iter::from_fn(move || {
        let message = messages.next().filter(|_| !is_over)?.and_then(read);
        is_over = message.is_none();
        Some(message)
    })
}

fn read(received: Received<'_>) -> Option<Message<'_>> {
    let body = received.body;
    let reply = match received.kind {
        NLMSG_ERROR => ConntrackReply::End(status(body)?),
        // Not every end of a dump has a status.
        NLMSG_DONE => ConntrackReply::End(status(body).unwrap_or(Ok(()))),
        NLMSG_OVERRUN => ConntrackReply::End(Err(Errno::ENOBUFS)),
        kind if kind == NFNL_SUBSYS_CTNETLINK | IPCTNL_MSG_CT_NEW => {
            entry(body.get(NFGENMSG..)?).map_or(ConntrackReply::Ignored, ConntrackReply::Entry)
        }
        _ => ConntrackReply::Ignored,
    };
    Some(Message {
        reply,
        is_interrupted: received.flags & NLM_F_DUMP_INTR != 0,
    })
}

/// Reads an entry; `None` if it is not UDP, or lacks an attribute that every UDP entry has.
fn entry(body: &[u8]) -> Option<ConntrackEntry<'_>> {
    let (mut original, mut reply, mut id, mut zone) = (None, None, None, &[][..]);
    for attribute in Attributes(body) {
        match attribute.kind {
            CTA_TUPLE_ORIG => original = Some(attribute),
            CTA_TUPLE_REPLY => reply = Some(attribute),
            CTA_ID => id = Some(attribute.whole),
            CTA_ZONE => zone = attribute.whole,
            _ => {}
        }
    }
    let original = original?;
    Some(ConntrackEntry {
        flow: Flow {
            destination: tuple_end(original.value, TupleEnd::Destination)?,
            reply_source: tuple_end(reply?.value, TupleEnd::Source)?,
        },
        tuple: original.whole,
        id: id?,
        zone,
    })
}

impl<'a> ConntrackEntry<'a> {
    /// Returns the attributes that identify this entry, also against a later one of the same tuple.
    pub(in crate::host) fn identity(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        [self.tuple, self.id, self.zone].into_iter()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TupleEnd {
    Source,
    Destination,
}

/// Reads one end of a UDP tuple; `None` for other protocols.
fn tuple_end(tuple: &[u8], end: TupleEnd) -> Option<SocketAddr> {
    let (v4, v6, port_kind) = match end {
        TupleEnd::Source => (CTA_IP_V4_SRC, CTA_IP_V6_SRC, CTA_PROTO_SRC_PORT),
        TupleEnd::Destination => (CTA_IP_V4_DST, CTA_IP_V6_DST, CTA_PROTO_DST_PORT),
    };
    let (mut ip, mut port, mut is_udp) = (None, None, false);
    for part in Attributes(tuple) {
        for Attribute { kind, value, .. } in Attributes(part.value) {
            match part.kind {
                CTA_TUPLE_IP if kind == v4 => ip = address::<4>(value),
                CTA_TUPLE_IP if kind == v6 => ip = address::<16>(value),
                CTA_TUPLE_PROTO if kind == CTA_PROTO_NUM => is_udp = value == [IPPROTO_UDP],
                CTA_TUPLE_PROTO if kind == port_kind => {
                    port = value.first_chunk().copied().map(u16::from_be_bytes);
                }
                _ => {}
            }
        }
    }
    is_udp.then_some(SocketAddr::new(ip?, port?))
}

fn address<const LENGTH: usize>(value: &[u8]) -> Option<IpAddr>
where
    IpAddr: From<[u8; LENGTH]>,
{
    value.first_chunk().copied().map(IpAddr::from)
}

#[cfg(test)]
#[path = "tests/conntrack.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/conntrack_message.rs"]
mod message_tests;
