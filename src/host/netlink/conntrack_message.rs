//! Bytes of conntrack's netlink messages: dump and deletion requests, and their replies.
//!
//! Kept separate from [`conntrack`](super::conntrack), which owns the sockets, so that tests can
//! compare requests byte by byte and feed replies that no kernel sends. Nothing is copied from
//! replies: there may be millions.
//!
//! # Source
//!
//! Linux: include/uapi/linux/netfilter/nfnetlink_conntrack.h; for filters
//! net/netfilter/nf_internals.h

use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;

use super::socket::{
    Attribute, Attributes, NFGENMSG, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST,
    NLMSG_DONE, NLMSG_ERROR, Received, attribute, family_number, message, messages, nested, pad,
    status,
};
use crate::conntrack::{Filter, Flow};
use crate::net::IpFamily;

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
#[path = "tests/conntrack_message.rs"]
mod tests;
