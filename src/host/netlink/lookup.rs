//! Routes and IP sets of this node, for packets that are traced.
//!
//! # Source
//!
//! Linux: include/uapi/linux/rtnetlink.h; net/ipv4/route.c, `inet_rtm_getroute`

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::net::if_::{if_nameindex, if_nametoindex};

use super::ip_set;
use super::socket::{
    Attributes, NLM_F_REQUEST, attribute, family_number, message, messages, octets, receive, send,
};
use crate::host::interfaces::local_addresses;
use crate::linux::{NetlinkProtocol, netlink};
use crate::net::IpFamily;
use crate::rules::{HostLookup, RoutedPacket, SetElement};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;

/// Size of the header after the netlink header, and the position of the route's type in it.
const RTMSG: usize = 12;
const RTM_TYPE: usize = 7;
const RTN_UNICAST: u8 = 1;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
const RTA_OIF: u16 = 4;
const RTA_MARK: u16 = 16;

/// A route takes some 100 bytes; an error status repeats the request.
const REPLY_BYTES: usize = 4096;

/// Routes and IP sets of the kernel of this node.
#[derive(Debug)]
pub(crate) struct KernelLookup {
    socket: OwnedFd,
    interfaces: BTreeMap<u32, Box<str>>,
    addresses: BTreeSet<IpAddr>,
}

impl KernelLookup {
    pub(crate) fn open() -> io::Result<Self> {
        let interfaces = if_nameindex()?;
        let named = interfaces
            .iter()
            .map(|one| (one.index(), one.name().to_string_lossy().into()));
        Ok(Self {
            socket: netlink::open(NetlinkProtocol::Route)?,
            interfaces: named.collect(),
            addresses: local_addresses()?,
        })
    }
}

impl HostLookup for KernelLookup {
    fn out_interface(&self, packet: &RoutedPacket<'_>) -> Option<&str> {
        let is_local = self.addresses.contains(&packet.source);
        let index = out_interface(&self.socket, packet, is_local).ok()??;
        self.interfaces.get(&index).map(|name| &**name)
    }

    fn is_in_set(&self, set: &str, packet: &SetElement<'_>) -> Option<bool> {
        ip_set::has(set, packet)
    }
}

/// Returns the index of the interface by which a packet leaves; `None` if the node keeps or drops
/// it. `is_local`: the source is an address of the node.
fn out_interface(
    socket: &OwnedFd,
    packet: &RoutedPacket<'_>,
    is_local: bool,
) -> Result<Option<u32>, Errno> {
    send(socket, &request(packet, is_local)?)?;
    let mut datagram = [0; REPLY_BYTES];
    Ok(read_reply(receive(socket, &mut datagram)?))
}

/// Encodes the request for a route. Without an incoming interface, the kernel takes the packet for
/// one of the node, and rejects sources of others.
fn request(packet: &RoutedPacket<'_>, is_local: bool) -> Result<Vec<u8>, Errno> {
    let in_interface = packet.in_interface.map(if_nametoindex).transpose()?;
    let family = family_number(IpFamily::of(packet.destination));
    let mut bytes = Vec::new();
    message(&mut bytes, RTM_GETROUTE, NLM_F_REQUEST, family, |bytes| {
        // The rest of the header: no table, protocol, scope, type and flags.
        bytes.extend([0; RTMSG - 4]);
        attribute(bytes, RTA_DST, &octets(packet.destination));
        if is_local || in_interface.is_some() {
            attribute(bytes, RTA_SRC, &octets(packet.source));
        }
        if let Some(index) = in_interface {
            attribute(bytes, RTA_IIF, &index.to_ne_bytes());
        }
        attribute(bytes, RTA_MARK, &packet.mark.to_ne_bytes());
    });
    Ok(bytes)
}

/// Reads the outgoing interface; `None` for an error status, and for routes that do not lead to
/// other hosts.
fn read_reply(datagram: &[u8]) -> Option<u32> {
    let message = messages(datagram).next()??;
    let is_route = message.kind == RTM_NEWROUTE;
    let is_unicast = message.body.get(RTM_TYPE) == Some(&RTN_UNICAST);
    let attributes = message
        .body
        .get(RTMSG..)
        .filter(|_| is_route && is_unicast)?;
    let index = Attributes(attributes).find(|one| one.kind == RTA_OIF)?;
    index.value.first_chunk().copied().map(u32::from_ne_bytes)
}
