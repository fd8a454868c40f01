//! Addresses of the network interfaces of this node, for NodePorts and health checks.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use nix::errno::Errno;
use tokio::net::unix::pipe::Receiver;

use super::netlink::socket::{receive, subscribe};
use crate::linux::{NetlinkProtocol, readable};
use crate::net::IpFamily;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InterfaceAddress {
    /// Name of the interface, as in `ip link`.
    pub interface: String,
    /// Address, which may be link-local.
    pub ip: IpAddr,
}

/// Returns every address of every interface, sorted; also of loopback and of interfaces that are
/// down.
fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut addresses: Vec<_> = nix::ifaddrs::getifaddrs()?
        .filter_map(|found| {
            let address = found.address?;
            let v4 = address.as_sockaddr_in().map(|socket| socket.ip().into());
            let ip = v4.or_else(|| address.as_sockaddr_in6().map(|socket| socket.ip().into()))?;
            Some(InterfaceAddress {
                interface: found.interface_name,
                ip,
            })
        })
        .collect();
    addresses.sort();
    Ok(addresses)
}

/// Returns the addresses of all interfaces, without the names of these.
pub fn local_addresses() -> io::Result<BTreeSet<IpAddr>> {
    let all = interface_addresses()?;
    Ok(all.into_iter().map(|address| address.ip).collect())
}

const RTNLGRP_IPV4_IFADDR: u32 = 5;
const RTNLGRP_IPV6_IFADDR: u32 = 9;

/// Size of the kernel's buffer for notifications, which take some 100 bytes each. An overflow
/// counts as a change.
const BUFFER_BYTES: usize = 64 << 10;

/// The kernel sends one address in each datagram.
const DATAGRAM_BYTES: usize = 4 << 10;

/// Subscription to the notifications about addresses of one family.
#[derive(Debug)]
pub(crate) struct AddressWatch {
    socket: Receiver,
}

impl AddressWatch {
    /// Starts to watch. Has to be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The kernel or the container denies it.
    pub(crate) fn start(family: IpFamily) -> io::Result<Self> {
        let group = match family {
            IpFamily::V4 => RTNLGRP_IPV4_IFADDR,
            IpFamily::V6 => RTNLGRP_IPV6_IFADDR,
        };
        let socket = subscribe(NetlinkProtocol::Route, group, BUFFER_BYTES)?;
        let socket = Receiver::from_owned_fd_unchecked(socket)?;
        Ok(Self { socket })
    }

    /// Waits until an address is added, deleted or renewed. Several changes may count as one.
    /// Cancel safe.
    pub(crate) async fn changed(&self) {
        loop {
            readable(&self.socket).await;
            if self.receive_all() {
                return;
            }
        }
    }

    /// Receives all pending notifications, and returns whether there are any.
    fn receive_all(&self) -> bool {
        let mut has_any = false;
        let mut datagram = vec![0; DATAGRAM_BYTES];
        loop {
            match receive(&self.socket, &mut datagram) {
                Ok(_) | Err(Errno::ENOBUFS | Errno::EMSGSIZE) => has_any = true,
                Err(_) => return has_any,
            }
        }
    }
}

/// Interface that kube-proxy's ipvs mode does not remove. While it has the address of a Service
/// that was deleted, packets to that address end on this node. The virtual servers remain as well.
///
/// Upstream: pkg/proxy/ipvs/proxier.go, `defaultDummyDevice` (v1.37)
pub(crate) const IPVS_INTERFACE: &str = "kube-ipvs0";

/// Remedy for leftovers of ipvs mode, for logs. They are not removed automatically: that takes
/// programs and protocols that nothing else here needs.
pub(crate) const IPVS_REMEDY: &str =
    "remove it with `ipvsadm --clear`, `ip link delete kube-ipvs0` and `ipset destroy`, or reboot";

pub(crate) fn has_interface(name: &str) -> bool {
    nix::net::if_::if_nametoindex(name).is_ok()
}
