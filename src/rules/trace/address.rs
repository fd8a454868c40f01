//! Decides what can be known of addresses without the routing table: their types and ranges.

use std::net::{IpAddr, Ipv4Addr};

use super::outcome::Locality;
use crate::rules::grammar::AddressTypes;

/// Reports whether `addrtype` matches an address; `None` if that depends on routes.
pub(super) fn is_of_type(types: AddressTypes, ip: IpAddr, locality: &Locality) -> Option<bool> {
    match ip {
        IpAddr::V4(v4) => is_of_v4_type(types, v4, locality),
        IpAddr::V6(_) => is_of_v6_type(types, ip, locality),
    }
}

/// The kernel looks up IPv4 addresses in the table of local addresses only, so that blackhole and
/// unreachable routes have no effect.
fn is_of_v4_type(types: AddressTypes, ip: Ipv4Addr, locality: &Locality) -> Option<bool> {
    let is_zero_net = ip.octets().first() == Some(&0);
    let has_type = |name| types.contains(name);
    match () {
        () if is_zero_net || ip.is_broadcast() => Some(has_type("BROADCAST")),
        () if ip.is_multicast() => Some(has_type("MULTICAST")),
        () if locality.is_local(ip.into()) => Some(has_type("LOCAL")),
        // Perhaps the broadcast address of a network that the node is in.
        () if ip.octets().last() == Some(&u8::MAX) => {
            let is_unicast = has_type("UNICAST");
            (is_unicast == has_type("BROADCAST")).then_some(is_unicast)
        }
        () => Some(has_type("UNICAST")),
    }
}

/// For IPv6, unicast and multicast are properties of the address that are required in addition to
/// the type of its route.
fn is_of_v6_type(types: AddressTypes, ip: IpAddr, locality: &Locality) -> Option<bool> {
    let has_type = |name| types.contains(name);
    let is_contradicted = (has_type("MULTICAST") && !ip.is_multicast())
        || (has_type("UNICAST") && (ip.is_multicast() || ip.is_unspecified()))
        || (has_type("UNSPEC") && !ip.is_unspecified());
    let depends_on_route = has_type("ANYCAST") || has_type("UNREACHABLE");
    match () {
        () if is_contradicted => Some(false),
        () if !has_type("LOCAL") && !depends_on_route => Some(true),
        () if locality.is_local(ip) => has_type("LOCAL").then_some(true),
        () => (!depends_on_route).then_some(false),
    }
}

/// Reports whether an address is in a range such as `10.0.0.1-10.0.0.9`; `None` if the text is not
/// a range.
pub(super) fn is_in_range(range: &str, ip: IpAddr) -> Option<bool> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
    let is_comparable = first.is_ipv4() == ip.is_ipv4() && last.is_ipv4() == ip.is_ipv4();
    Some(is_comparable && first <= ip && ip <= last)
}

/// Reports whether packets to the address are sent to one receiver on the link.
pub(super) fn is_unicast(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !ip.is_multicast() && !is_broadcast
}
