//! Routes and IP sets of this node, for packets that are traced.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use nix::net::if_::if_nameindex;

use super::{ip_set, route};
use crate::host::interfaces::local_addresses;
use crate::linux::{NetlinkProtocol, netlink};
use crate::rules::{HostLookup, RoutedPacket, SetElement};

/// Routes and IP sets of the kernel of this node.
#[derive(Debug)]
pub(crate) struct KernelLookup {
    socket: OwnedFd,
    /// Names of the interfaces by index.
    interfaces: BTreeMap<u32, Box<str>>,
    addresses: BTreeSet<IpAddr>,
}

impl KernelLookup {
    /// Opens the kernel's interfaces.
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
        let index = route::out_interface(&self.socket, packet, is_local).ok()??;
        self.interfaces.get(&index).map(|name| &**name)
    }

    fn is_in_set(&self, set: &str, packet: &SetElement<'_>) -> Option<bool> {
        ip_set::has(set, packet)
    }
}
