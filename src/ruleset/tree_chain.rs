//! Chains of dispatch trees: the destinations that they stand for, and their names.
//!
//! In a tree, a dispatch chain holds jumps for prefixes of destinations instead of rules of
//! Services. Their targets are inner chains, with jumps for longer prefixes, or leaves, with rules
//! of Services and jumps to the chains of destinations with many rules.
//!
//! # Names
//!
//! | dispatch chain           | destinations         | tree chain                           |
//! |--------------------------|----------------------|--------------------------------------|
//! | `KUBE-SERVICES`          | cluster IPs          | `KUBE-SVC-10.96.0.0/16`              |
//! |                          | of IPv6, hashed      | `KUBE-SVC-/vRWfXzO0.9aUHsbhZk`       |
//! |                          | external IPs, in nat | `KUBE-EXT-192.0.2.0/24`              |
//! | `KUBE-NODEPORTS`         | ports                | `KUBE-SVC-tcp/30720-30975`           |
//! | `KUBE-EXTERNAL-SERVICES` | external IPs         | `KUBE-EXT-192.0.2.0/24`              |
//! |                          | NodePorts            | `KUBE-EXT-tcp/30720-30975`           |
//! | `KUBE-PROXY-FIREWALL`    | load balancer IPs    | `KUBE-FW-192.0.2.0/24`               |
//!
//! A full sync of kube-proxy deletes chains of the nat table with the prefix of a Service chain
//! that it does not know: it removes a tree that it takes over. The hash in the name of a Service
//! chain has no slash, as names of tree chains have. Chain names have at most 28 characters, too
//! few for an IPv6 prefix: it is hashed. A user who may choose addresses would need about 2^54
//! hashes to find two prefixes with the same name, and 2^108 for a prefix with that of another.
//! `nft` can read the names that it prints, as they have only letters, digits, dots, dashes,
//! underscores and slashes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, iter};

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

use super::shared_chains::{DispatchChain, DispatchDestination};
use crate::net::{IpFamily, Protocol};
use crate::rules::Table;

/// Maximum bits by which the prefixes in an inner chain are longer than what all of its rules have
/// in common: at most sixteen jumps.
///
/// With four bits, the levels that nft allows decide 28 of the 32 bits of an IPv4 address after the
/// root; with three bits they decide 21. Three were as fast: when all chains divided by the same
/// number of bits, `connect()` to the last of 30,000 Services took 9.4 us with three bits and 9.7
/// us with four on nft, 8.9 and 9.0 us on legacy; with 1,000 Services the same (medians).
pub(crate) const STRIDE: u8 = 4;

/// Characters of the hash of an IPv6 prefix: with `KUBE-SVC-/`, a name of 28 characters. They have
/// 108 bits.
const HASH_CHARS: usize = 18;

/// Kind of destinations. Those of different kinds have no prefix in common.
///
/// Cluster IPs are apart from other addresses of Services: they are in the ranges that an
/// administrator has chosen, while a user may choose external IPs that make a tree deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    ClusterIps(IpFamily),
    ExternalIps(IpFamily),
    /// Protocol in the first [`STRIDE`] bits, then the port.
    Ports,
}

impl Space {
    const fn family(self) -> Option<IpFamily> {
        match self {
            Self::ClusterIps(family) | Self::ExternalIps(family) => Some(family),
            Self::Ports => None,
        }
    }

    const fn width(self) -> u8 {
        match self.family() {
            Some(IpFamily::V4) => 32,
            Some(IpFamily::V6) => 128,
            None => STRIDE + 16,
        }
    }
}

/// Prefix: all destinations with these first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix {
    space: Space,
    /// First bits, at the most significant end; all others are zero.
    bits: u128,
    pub(crate) len: u8,
}

impl Prefix {
    /// Returns the prefix that only this destination has.
    pub(crate) fn of(destination: DispatchDestination) -> Self {
        let (space, bits) = match destination {
            DispatchDestination::ClusterIp(ip) => {
                (Space::ClusterIps(IpFamily::of(ip)), address_bits(ip))
            }
            DispatchDestination::ExternalIp(ip) => {
                (Space::ExternalIps(IpFamily::of(ip)), address_bits(ip))
            }
            DispatchDestination::Port(protocol, port) => {
                let protocol = u128::from(protocol_bits(protocol)) << (128 - STRIDE);
                let port = u128::from(port.get()) << (128 - STRIDE - 16);
                (Space::Ports, protocol | port)
            }
        };
        let len = space.width();
        Self { space, bits, len }
    }

    /// Returns the prefix that all destinations of the same kind have.
    pub(crate) const fn root(self) -> Self {
        Self {
            bits: 0,
            len: 0,
            ..self
        }
    }

    /// Returns the length of prefixes that are [`STRIDE`] bits longer.
    pub(crate) fn child_len(self) -> u8 {
        (self.len + STRIDE).min(self.space.width())
    }

    /// Returns the two prefixes that are one bit longer. Only for a prefix that is not
    /// [single](Self::is_single).
    pub(crate) fn halves(self) -> [Self; 2] {
        let len = self.len + 1;
        let last_bit = 1 << (128 - len);
        let bits = [self.bits, self.bits | last_bit];
        bits.map(|bits| Self { bits, len, ..self })
    }

    /// Returns the longest common prefix whose length is a multiple of [`STRIDE`] bits.
    pub(crate) fn common(self, other: Self) -> Self {
        let equal = (self.bits ^ other.bits).leading_zeros();
        let equal = u8::try_from(equal).unwrap_or(128).min(self.len);
        if equal == self.space.width() {
            return self;
        }
        self.shortened(equal - equal % STRIDE)
    }

    /// Returns this prefix and all shorter ones whose length is a multiple of [`STRIDE`] bits, down
    /// to that of `shortest`.
    pub(crate) fn shortened_to(self, shortest: Self) -> impl Iterator<Item = Self> {
        let lengths = shortest.len..self.len;
        let shorter = lengths.filter(|len| len.is_multiple_of(STRIDE));
        iter::once(self).chain(shorter.map(move |len| self.shortened(len)))
    }

    pub(crate) const fn first(self) -> Self {
        Self {
            len: self.space.width(),
            ..self
        }
    }

    pub(crate) fn last(self) -> Self {
        let unused = u128::MAX.checked_shr(self.space.width().into());
        let within = u128::MAX.checked_shr(self.len.into()).unwrap_or_default();
        Self {
            bits: self.bits | (within & !unused.unwrap_or_default()),
            len: self.space.width(),
            ..self
        }
    }

    /// Reports whether only one destination has the prefix.
    pub(crate) const fn is_single(self) -> bool {
        self.len == self.space.width()
    }

    /// Returns the name of the tree chain for this prefix.
    pub(crate) fn chain_name(self, dispatch: DispatchChain) -> Box<str> {
        let start = start_of_names(dispatch, self.space);
        format!("{start}{}", ChainSuffix(self)).into()
    }

    fn shortened(self, len: u8) -> Self {
        let rest = u128::MAX.checked_shr(len.into()).unwrap_or_default();
        Self {
            bits: self.bits & !rest,
            len,
            ..self
        }
    }

    fn ip(self) -> IpAddr {
        match self.space.family() {
            Some(IpFamily::V6) => Ipv6Addr::from_bits(self.bits).into(),
            Some(IpFamily::V4) | None => {
                let [a, b, c, d, ..] = self.bits.to_be_bytes();
                Ipv4Addr::new(a, b, c, d).into()
            }
        }
    }

    /// Returns the protocol, and the first and the last port with the prefix.
    fn ports(self) -> (&'static str, u16, u16) {
        let port = |of: Self| {
            let bits = of.bits >> (128 - STRIDE - 16);
            u16::try_from(bits & u128::from(u16::MAX)).unwrap_or_default()
        };
        let protocol = match self.bits >> (128 - STRIDE) {
            1 => Protocol::Tcp,
            2 => Protocol::Udp,
            _ => Protocol::Sctp,
        };
        (protocol.as_str(), port(self.first()), port(self.last()))
    }
}

/// Writes the match for the prefix as rules have it, with a blank before it.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.space != Space::Ports {
            return write!(f, " -d {}/{}", self.ip(), self.len);
        }
        match self.ports() {
            (protocol, _, _) if self.len <= STRIDE => write!(f, " -p {protocol}"),
            (protocol, first, last) if first == last => {
                write!(f, " -m {protocol} -p {protocol} --dport {first}")
            }
            (protocol, first, last) => {
                write!(f, " -m {protocol} -p {protocol} --dport {first}:{last}")
            }
        }
    }
}

/// Reports whether a jump to a tree chain is for a single address or port.
pub(crate) fn jumps_for_one_destination(jump: &str) -> bool {
    let port = jump.split_once("--dport ").map(|(_, rest)| rest);
    let is_one_port = port.is_some_and(|port| !port.contains(':'));
    is_one_port || jump.contains("/32 ") || jump.contains("/128 ")
}

/// Part of a tree chain's name that stands for the prefix.
struct ChainSuffix(Prefix);

impl fmt::Display for ChainSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.0;
        match prefix.space.family() {
            Some(IpFamily::V4) => write!(f, "{}/{}", prefix.ip(), prefix.len),
            Some(IpFamily::V6) => {
                let mut hasher = Sha256::new();
                hasher.update(prefix.bits.to_be_bytes());
                hasher.update([prefix.len]);
                // Without dashes: a name could contain `-j`, which people and scripts search for.
                let hash = BASE64URL_NOPAD.encode(&hasher.finalize()).replace('-', ".");
                write!(f, "/{hash:.HASH_CHARS$}")
            }
            None => {
                let (protocol, first, last) = prefix.ports();
                write!(f, "{protocol}/{first}-{last}")
            }
        }
    }
}

fn address_bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

const fn protocol_bits(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 1,
        Protocol::Udp => 2,
        Protocol::Sctp => 3,
    }
}

/// Returns how the names of a tree's chains begin.
const fn start_of_names(dispatch: DispatchChain, space: Space) -> &'static str {
    match (dispatch, space) {
        (DispatchChain::NatServices, Space::ExternalIps(_))
        | (DispatchChain::FilterExternalServices, _) => "KUBE-EXT-",
        (DispatchChain::FilterProxyFirewall, _) => "KUBE-FW-",
        _ => "KUBE-SVC-",
    }
}

/// Returns the dispatch chain whose tree a chain belongs to, by its name; `None` for any other
/// chain.
pub(crate) fn tree_of(table: Table, name: &str) -> Option<DispatchChain> {
    let all = DispatchChain::ALL.into_iter();
    let mut of_table = all.filter(|dispatch| dispatch.table() == table);
    of_table.find(|dispatch| {
        spaces(*dispatch).iter().any(|space| {
            let suffix = name.strip_prefix(start_of_names(*dispatch, *space));
            let prefix = suffix.and_then(|suffix| suffix.split_once('/'));
            prefix.is_some_and(|(first, _)| {
                // Before the slash, only names of protocols are in lower case.
                let is_protocol = first.starts_with(|first: char| first.is_ascii_lowercase());
                is_protocol == (*space == Space::Ports)
            })
        })
    })
}

/// Returns the kinds of destinations that the rules of a dispatch chain match. Names do not depend
/// on the family.
const fn spaces(dispatch: DispatchChain) -> &'static [Space] {
    const CLUSTER_IPS: Space = Space::ClusterIps(IpFamily::V4);
    const EXTERNAL_IPS: Space = Space::ExternalIps(IpFamily::V4);
    match dispatch {
        DispatchChain::FilterServices => &[CLUSTER_IPS],
        DispatchChain::FilterExternalServices => &[EXTERNAL_IPS, Space::Ports],
        DispatchChain::FilterProxyFirewall => &[EXTERNAL_IPS],
        DispatchChain::NatServices => &[CLUSTER_IPS, EXTERNAL_IPS],
        DispatchChain::FilterNodePorts | DispatchChain::NatNodePorts => &[Space::Ports],
    }
}

#[cfg(test)]
#[path = "tests/tree_chain.rs"]
mod tests;
