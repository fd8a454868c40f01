//! The bytes of the kernel's answers about entries of the connection table.
//!
//! Apart from [`conntrack`](super::conntrack), which owns the sockets, so that answers the kernel
//! would never give can be tried, too. Nothing is copied: there may be millions.
//!
//! # Source
//!
//! Linux: include/uapi/linux/netfilter/nfnetlink_conntrack.h

use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;

use super::conntrack_message::{
    CTA_IP_V4_DST, CTA_IP_V6_DST, CTA_PROTO_DST_PORT, CTA_PROTO_NUM, CTA_TUPLE_IP, CTA_TUPLE_ORIG,
    CTA_TUPLE_PROTO, IPPROTO_UDP, NFNL_SUBSYS_CTNETLINK,
};
use super::netlink::{
    Attribute, Attributes, NFGENMSG, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, Received, messages,
    status,
};
use crate::conntrack::Flow;

const NLMSG_OVERRUN: u16 = 4;
const IPCTNL_MSG_CT_NEW: u16 = 0;

const CTA_TUPLE_REPLY: u16 = 2;
const CTA_ID: u16 = 12;
const CTA_ZONE: u16 = 18;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_PROTO_SRC_PORT: u16 = 2;

/// One message of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    /// What it says.
    pub(super) said: Answer<'a>,
    /// Something came in between: the entries told may not be all there are.
    pub(super) is_interrupted: bool,
}

/// What a message says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// There is this entry of UDP.
    Entry(Entry<'a>),
    /// Nothing that matters here: an entry of another protocol, or another kind of message.
    Foreign,
    /// There are no more entries; or what was asked for was done, or was not.
    End(Result<(), Errno>),
}

/// A UDP flow, and what to delete it by.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// What is decided by.
    pub(super) flow: Flow,
    /// Whole attributes, as the kernel wrote them.
    tuple: &'a [u8],
    id: &'a [u8],
    /// Absent in the default zone.
    zone: &'a [u8],
}

/// The messages of one datagram. `None` for what is none; then there is nothing more.
pub(super) fn answers(datagram: &[u8]) -> impl Iterator<Item = Option<Message<'_>>> {
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
    let said = match received.kind {
        NLMSG_ERROR => Answer::End(status(body)?),
        // Some ends carry no status.
        NLMSG_DONE => Answer::End(status(body).unwrap_or(Ok(()))),
        NLMSG_OVERRUN => Answer::End(Err(Errno::ENOBUFS)),
        kind if kind == NFNL_SUBSYS_CTNETLINK | IPCTNL_MSG_CT_NEW => {
            entry(body.get(NFGENMSG..)?).map_or(Answer::Foreign, Answer::Entry)
        }
        _ => Answer::Foreign,
    };
    Some(Message {
        said,
        is_interrupted: received.flags & NLM_F_DUMP_INTR != 0,
    })
}

/// `None`: it is not UDP, or lacks something that every entry of UDP has.
fn entry(body: &[u8]) -> Option<Entry<'_>> {
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
    Some(Entry {
        flow: Flow {
            destination: end(original.value, End::Destination)?,
            reply_source: end(reply?.value, End::Source)?,
        },
        tuple: original.whole,
        id: id?,
        zone,
    })
}

impl<'a> Entry<'a> {
    /// The attributes that tell this entry from all others, for ever.
    pub(super) fn identity(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        [self.tuple, self.id, self.zone].into_iter()
    }
}

/// One end of a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
}

/// An end of a UDP tuple.
fn end(tuple: &[u8], end: End) -> Option<SocketAddr> {
    let (v4, v6, number) = match end {
        End::Source => (CTA_IP_V4_SRC, CTA_IP_V6_SRC, CTA_PROTO_SRC_PORT),
        End::Destination => (CTA_IP_V4_DST, CTA_IP_V6_DST, CTA_PROTO_DST_PORT),
    };
    let (mut ip, mut port, mut is_udp) = (None, None, false);
    for part in Attributes(tuple) {
        for Attribute { kind, value, .. } in Attributes(part.value) {
            match part.kind {
                CTA_TUPLE_IP if kind == v4 => ip = address::<4>(value),
                CTA_TUPLE_IP if kind == v6 => ip = address::<16>(value),
                CTA_TUPLE_PROTO if kind == CTA_PROTO_NUM => is_udp = value == [IPPROTO_UDP],
                CTA_TUPLE_PROTO if kind == number => {
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
#[path = "tests/conntrack_answer.rs"]
mod tests;
