//! Membership of a packet in an IP set of the kernel.
//!
//! # Source
//!
//! Linux: include/uapi/linux/netfilter/ipset/ip_set.h; net/netfilter/ipset/ip_set_core.c

use std::net::IpAddr;

use super::socket::{
    self, Attributes, NFGENMSG, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, attribute, family_number,
    message, messages, nested, octets, text,
};
use crate::net::{IpFamily, Protocol};
use crate::rules::{SetElement, Side};

/// The subsystem is the upper byte of the message type.
const NFNL_SUBSYS_IPSET: u16 = 6 << 8;
const IPSET_CMD_TEST: u16 = 11;
const IPSET_CMD_HEADER: u16 = 12;
const IPSET_PROTOCOL: u8 = 6;

const IPSET_ATTR_PROTOCOL: u16 = 1;
const IPSET_ATTR_SETNAME: u16 = 2;
const IPSET_ATTR_TYPENAME: u16 = 3;
const IPSET_ATTR_FAMILY: u16 = 5;
const IPSET_ATTR_DATA: u16 = 7;

const IPSET_ATTR_IP: u16 = 1;
const IPSET_ATTR_PORT: u16 = 4;
const IPSET_ATTR_PROTO: u16 = 7;
const IPSET_ATTR_IP2: u16 = 20;
const IPSET_ATTR_IPADDR_IPV4: u16 = 1;
const IPSET_ATTR_IPADDR_IPV6: u16 = 2;
const NLA_F_NET_BYTEORDER: u16 = 0x4000;

/// Error code for an element that the set does not have.
const IPSET_ERR_EXIST: i32 = 4103;
/// Error code for an address or port outside of the range of a bitmap.
const IPSET_ERR_BITMAP_RANGE: i32 = 4352;

const NFPROTO_UNSPEC: u8 = 0;

/// Reports whether the set has the element that the packet is; `None` if the kernel does not tell,
/// or the type of the set is not supported.
pub(super) fn has(set: &str, packet: &SetElement<'_>) -> Option<bool> {
    let (kind, family) = socket::query(&header_request(set), read_header).ok()?;
    // Type and parts of an element, as in `hash:ip,port`.
    let (_, parts) = kind.split_once(':')?;
    let own = family_number(IpFamily::of(packet.source));
    let parts: Vec<&str> = parts.split(',').collect();
    if parts.len() > packet.sides.len() || ![NFPROTO_UNSPEC, own].contains(&family) {
        // The kernel does not look into such a set.
        return Some(false);
    }
    let request = test_request(set, family, &parts, packet)?;
    socket::query(&request, read_result).ok()
}

fn header_request(set: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let kind = NFNL_SUBSYS_IPSET | IPSET_CMD_HEADER;
    message(&mut bytes, kind, NLM_F_REQUEST, NFPROTO_UNSPEC, |bytes| {
        attribute(bytes, IPSET_ATTR_PROTOCOL, &[IPSET_PROTOCOL]);
        text(bytes, IPSET_ATTR_SETNAME, set);
    });
    bytes
}

/// Reads the type and the family of a set.
fn read_header(datagram: &[u8]) -> Option<(String, u8)> {
    let message = messages(datagram).next()??;
    let is_header = message.kind == NFNL_SUBSYS_IPSET | IPSET_CMD_HEADER;
    let attributes = message.body.get(NFGENMSG..).filter(|_| is_header)?;
    let value = |kind| Attributes(attributes).find(|one| one.kind == kind);
    let (_, name) = value(IPSET_ATTR_TYPENAME)?.value.split_last()?;
    let name = String::from_utf8(name.to_vec()).ok()?;
    Some((name, *value(IPSET_ATTR_FAMILY)?.value.first()?))
}

/// Encodes the test of an element; `None` if a part of it is not known or not supported.
fn test_request(set: &str, family: u8, parts: &[&str], packet: &SetElement<'_>) -> Option<Vec<u8>> {
    let mut element = Vec::new();
    let mut addresses = [IPSET_ATTR_IP, IPSET_ATTR_IP2].into_iter();
    for (part, side) in parts.iter().zip(packet.sides) {
        let (ip, port) = match side {
            Side::Source => (packet.source, packet.source_port),
            Side::Destination => (packet.destination, packet.port),
        };
        match *part {
            "ip" | "net" => {
                let kind = addresses.next()?;
                nested(&mut element, kind, |bytes| address(bytes, ip));
            }
            "port" => {
                let kind = NLA_F_NET_BYTEORDER | IPSET_ATTR_PORT;
                attribute(&mut element, kind, &port?.to_be_bytes());
                attribute(&mut element, IPSET_ATTR_PROTO, &[protocol(packet.protocol)]);
            }
            _ => return None,
        }
    }
    let mut bytes = Vec::new();
    let kind = NFNL_SUBSYS_IPSET | IPSET_CMD_TEST;
    let flags = NLM_F_REQUEST | NLM_F_ACK;
    message(&mut bytes, kind, flags, family, |bytes| {
        attribute(bytes, IPSET_ATTR_PROTOCOL, &[IPSET_PROTOCOL]);
        text(bytes, IPSET_ATTR_SETNAME, set);
        nested(bytes, IPSET_ATTR_DATA, |bytes| bytes.extend(&element));
    });
    Some(bytes)
}

fn address(bytes: &mut Vec<u8>, ip: IpAddr) {
    let kind = match ip {
        IpAddr::V4(_) => IPSET_ATTR_IPADDR_IPV4,
        IpAddr::V6(_) => IPSET_ATTR_IPADDR_IPV6,
    };
    attribute(bytes, NLA_F_NET_BYTEORDER | kind, &octets(ip));
}

/// Returns the number of the protocol in IP headers.
const fn protocol(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    }
}

/// Reads the result of a test; `None` for other errors.
fn read_result(datagram: &[u8]) -> Option<bool> {
    let message = messages(datagram).next()??;
    if message.kind != NLMSG_ERROR {
        return None;
    }
    // Codes of this subsystem are beyond those that `Errno` knows.
    let code = i32::from_ne_bytes(*message.body.first_chunk()?);
    match code.checked_neg()? {
        0 => Some(true),
        IPSET_ERR_EXIST | IPSET_ERR_BITMAP_RANGE => Some(false),
        _ => None,
    }
}
