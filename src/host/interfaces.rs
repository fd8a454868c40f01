//! The addresses of this machine.
//!
//! Apart because the kernel is the only one to know them, and NodePorts and health checks need
//! the same list.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

/// One address of one interface. Any value is legal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress {
    /// As `ip link` names it.
    pub interface: String,
    /// Link-local ones too.
    pub ip: IpAddr,
}

/// Every address of every interface, loopback included, up or not; sorted.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
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

/// The same without the names, each address once.
pub fn local_addresses() -> io::Result<BTreeSet<IpAddr>> {
    let all = interface_addresses()?;
    Ok(all.into_iter().map(|address| address.ip).collect())
}

/// What kube-proxy's mode ipvs leaves behind: an interface with the address of every Service, which
/// makes this node swallow what is sent to one that is gone, and the virtual servers behind it.
///
/// Upstream: pkg/proxy/ipvs/proxier.go, `defaultDummyDevice` (v1.36)
pub const IPVS_INTERFACE: &str = "kube-ipvs0";

/// How to get rid of that. It takes programs and protocols that nothing else here needs.
pub const IPVS_REMEDY: &str =
    "`ipvsadm --clear`, `ip link delete kube-ipvs0` and `ipset destroy`, or a reboot, remove it";

/// Whether there is such an interface.
pub fn has_interface(name: &str) -> bool {
    nix::net::if_::if_nametoindex(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_known_by_name() {
        assert!(has_interface("lo"));
        assert!(!has_interface("deltaproxy-none"));
    }

    #[test]
    fn loopback_is_found() {
        let all = interface_addresses().unwrap();
        assert!(all.is_sorted());
        let loopback = all.iter().find(|address| address.interface == "lo");
        assert!(loopback.is_some_and(|address| address.ip.is_loopback()));
        assert!(
            local_addresses()
                .unwrap()
                .contains(&IpAddr::from([127, 0, 0, 1]))
        );
    }
}
