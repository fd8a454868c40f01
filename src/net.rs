//! Addresses, IP families, protocols and ports, the delay of retries and locks: the bottom layer,
//! which knows neither Kubernetes objects nor iptables.
//!
//! Stored objects can hold spellings of addresses that today's API server rejects: octets with
//! leading zeros, which count as decimal, and IPv4-mapped IPv6 addresses. Rules and comparisons
//! see one spelling.
//!
//! # Source
//!
//! Upstream: k8s.io/utils/net/parse.go, `ParseIPSloppy`, `ParseCIDRSloppy` (v1.37)

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use ipnet::IpNet;
pub(crate) use ipnet::ip_mask_to_prefix;

/// Parses an address: leading zeros are decimal, `::ffff:a.b.c.d` is IPv4. Returns `None` if the
/// text is not a valid address.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text
            .parse::<Ipv6Addr>()
            .ok()
            .map(|ip| IpAddr::V6(ip).to_canonical());
    }
    parse_ipv4(text).map(IpAddr::V4)
}

/// Parses a network and clears its host bits. Returns `None` if the text is not a valid CIDR.
///
/// An IPv4-mapped network with a prefix of at least 96 bits becomes an IPv4 network; with a
/// shorter prefix it stays IPv6.
pub fn parse_cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let length: u8 = length.parse().ok()?;
    if !address.contains(':') {
        return IpNet::new(parse_ipv4(address)?.into(), length)
            .ok()
            .map(|net| net.trunc());
    }
    let ip = address.parse::<Ipv6Addr>().ok()?;
    match (ip.to_ipv4_mapped(), length.checked_sub(96)) {
        (Some(v4), Some(v4_length)) => IpNet::new(v4.into(), v4_length),
        _ => IpNet::new(ip.into(), length),
    }
    .ok()
    .map(|net| net.trunc())
}

/// Reports whether routers forward no packets to an address: it is unspecified, loopback,
/// link-local or link-local multicast. The API rejects these as addresses of endpoints: traffic
/// would reach services of the node itself.
///
/// Upstream: pkg/apis/core/validation/validation.go, `ValidateEndpointIP` (v1.37)
pub(crate) fn is_unroutable(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let is_link_local_multicast = ip.octets().starts_with(&[224, 0, 0]);
            ip.is_unspecified() || ip.is_loopback() || ip.is_link_local() || is_link_local_multicast
        }
        IpAddr::V6(ip) => {
            let is_link_local_multicast = ip.segments()[0] & 0xff0f == 0xff02;
            ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_unicast_link_local()
                || is_link_local_multicast
        }
    }
}

fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        // Leading zeros may make the text longer than any number of type u8.
        *octet = match part.trim_start_matches('0') {
            "" => 0,
            digits => digits.parse().ok()?,
        };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

enum_of_words! {
    all
    /// IP family, with its spelling in `ipFamilies`, `addressType` and the metric label
    /// `ip_family`; in the order of all output.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum IpFamily {
        /// Programmed with `iptables-restore`.
        V4 = "IPv4",
        /// Programmed with `ip6tables-restore`.
        V6 = "IPv6",
    }
}

impl IpFamily {
    /// Returns the family of an address. [`parse_ip`] returns no IPv4-mapped addresses, so this is
    /// the family of its rules.
    pub const fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    pub const fn of_cidr(cidr: IpNet) -> Self {
        match cidr {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }

    /// Returns the family with this spelling in `ipFamilies` or `addressType`, which documents of
    /// this program have as well.
    pub(crate) fn from_api(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == text)
    }

    /// Returns the name of the program that changes rules.
    pub(crate) const fn iptables(self) -> &'static str {
        match self {
            Self::V4 => "iptables",
            Self::V6 => "ip6tables",
        }
    }

    /// Returns the name of the program that prints rules, by which readers of dumps recognize the
    /// family.
    pub const fn save_program(self) -> &'static str {
        match self {
            Self::V4 => "iptables-save",
            Self::V6 => "ip6tables-save",
        }
    }

    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    pub const fn host_prefix_len(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerFamily<T> {
    pub v4: T,
    pub v6: T,
}

impl<T> PerFamily<T> {
    pub fn from_fn(mut build: impl FnMut(IpFamily) -> T) -> Self {
        Self {
            v4: build(IpFamily::V4),
            v6: build(IpFamily::V6),
        }
    }

    pub const fn get(&self, family: IpFamily) -> &T {
        match family {
            IpFamily::V4 => &self.v4,
            IpFamily::V6 => &self.v6,
        }
    }

    pub const fn get_mut(&mut self, family: IpFamily) -> &mut T {
        match family {
            IpFamily::V4 => &mut self.v4,
            IpFamily::V6 => &mut self.v6,
        }
    }

    pub const fn as_ref(&self) -> PerFamily<&T> {
        PerFamily {
            v4: &self.v4,
            v6: &self.v6,
        }
    }

    pub fn map<U>(self, mut make: impl FnMut(IpFamily, T) -> U) -> PerFamily<U> {
        PerFamily {
            v4: make(IpFamily::V4, self.v4),
            v6: make(IpFamily::V6, self.v6),
        }
    }

    /// Returns both values with their family, IPv4 first.
    pub fn into_pairs(self) -> [(IpFamily, T); 2] {
        [(IpFamily::V4, self.v4), (IpFamily::V6, self.v6)]
    }

    /// Returns references to both values with their family, IPv4 first.
    pub fn pairs(&self) -> impl Iterator<Item = (IpFamily, &T)> + Clone {
        self.as_ref().into_pairs().into_iter()
    }
}

/// Transport port, 1 to 65535. "No port" is `None`, never zero.
pub type Port = NonZeroU16;

enum_of_words! {
    /// Transport protocol, with its spelling of iptables, for `-p` and `-m`, which chain names
    /// hash.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Protocol {
        /// Default of the API.
        Tcp = "tcp",
        /// Its conntrack entries outlive their endpoints.
        Udp = "udp",
        /// Needs the `xt_sctp` match in the kernel.
        Sctp = "sctp",
    }
}

impl Protocol {
    /// Parses the spelling of the API. Returns `None` for any other text: a rule with an unknown
    /// protocol would make `iptables-restore` reject the whole payload.
    pub fn from_api(text: &str) -> Option<Self> {
        match text {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }

    /// Parses the name or number in rules and in `/etc/protocols`.
    pub fn from_iptables(text: &str) -> Option<Self> {
        match text {
            "tcp" | "6" => Some(Self::Tcp),
            "udp" | "17" => Some(Self::Udp),
            "sctp" | "132" => Some(Self::Sctp),
            _ => None,
        }
    }
}

/// Delay that doubles with each repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DoublingDelay {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl DoublingDelay {
    /// Returns a delay of one second at first, as for most retries.
    pub(crate) const fn of_retries(longest: Duration) -> Self {
        Self {
            first: Duration::from_secs(1),
            longest,
        }
    }

    /// Returns the delay after this many failures in a row, at least one.
    pub(crate) fn after(self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

/// Value behind a lock. A panic elsewhere does not take it away: in a release it ends the process,
/// and every change of a locked value leaves it valid.
#[derive(Debug, Default)]
pub(crate) struct Locked<T>(Mutex<T>);

impl<T> Locked<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "tests/net.rs"]
mod tests;
