//! The bytes of requests for entries of the connection table.
//!
//! Apart from [`conntrack`](super::conntrack), which owns the sockets, so that they can be compared
//! byte by byte.
//!
//! # Source
//!
//! Linux: include/uapi/linux/netfilter/nfnetlink_conntrack.h; for filters
//! net/netfilter/nf_internals.h

use std::net::SocketAddr;

use super::conntrack_answer::Entry;
use super::netlink::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, attribute, message, nested, number, pad,
};
use crate::conntrack::Filter;
use crate::net::IpFamily;

/// The subsystem is the upper byte of the message type.
pub(super) const NFNL_SUBSYS_CTNETLINK: u16 = 1 << 8;
const IPCTNL_MSG_CT_GET: u16 = 1;
const IPCTNL_MSG_CT_DELETE: u16 = 2;

pub(super) const CTA_TUPLE_ORIG: u16 = 1;
const CTA_FILTER: u16 = 25;
pub(super) const CTA_TUPLE_IP: u16 = 1;
pub(super) const CTA_TUPLE_PROTO: u16 = 2;
pub(super) const CTA_IP_V4_DST: u16 = 2;
pub(super) const CTA_IP_V6_DST: u16 = 4;
pub(super) const CTA_PROTO_NUM: u16 = 1;
pub(super) const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;

/// Which parts of the tuple are compared.
const BY_IP_DST: u32 = 1 << 1;
const BY_PROTO_NUM: u32 = 1 << 3;
const BY_PROTO_DST_PORT: u32 = 1 << 5;

pub(super) const IPPROTO_UDP: u8 = 17;

/// The request for all entries of a family; with a filter, for those that pass it.
pub(super) fn dump(family: IpFamily, filter: Option<Filter>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let flags = NLM_F_REQUEST | NLM_F_DUMP;
    let kind = NFNL_SUBSYS_CTNETLINK | IPCTNL_MSG_CT_GET;
    message(&mut bytes, kind, flags, number(family), |bytes| {
        if let Some(filter) = filter {
            write_filter(bytes, filter);
        }
    });
    bytes
}

/// Requests to delete entries, one behind the other.
#[derive(Debug)]
pub(super) struct Deletions {
    family: IpFamily,
    bytes: Vec<u8>,
    count: usize,
}

impl Deletions {
    /// None yet.
    pub(super) const fn new(family: IpFamily) -> Self {
        Self {
            family,
            bytes: Vec::new(),
            count: 0,
        }
    }

    /// Adds one. Its number makes sure that it is this very entry, and not one that has taken its
    /// place. There is always a tuple: a request without one would delete all entries there are.
    pub(super) fn add(&mut self, entry: &Entry<'_>) {
        let kind = NFNL_SUBSYS_CTNETLINK | IPCTNL_MSG_CT_DELETE;
        let (flags, family) = (NLM_F_REQUEST | NLM_F_ACK, number(self.family));
        message(&mut self.bytes, kind, flags, family, |bytes| {
            for attribute in entry.identity() {
                bytes.extend(attribute);
                pad(bytes);
            }
        });
        self.count += 1;
    }

    /// All of them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
}

fn write_filter(bytes: &mut Vec<u8>, filter: Filter) {
    let (ip, port) = match filter {
        Filter::Everything => (None, None),
        // A kernel that is asked for an IPv6 address takes equal ones for different ones, and the
        // other way round: `ctnetlink_filter_match_tuple`, seen up to Linux 6.18.
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

#[cfg(test)]
#[path = "tests/conntrack_message.rs"]
mod tests;
