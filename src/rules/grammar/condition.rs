//! Values that rules compare with or set, each in one normal form: networks, interfaces, ports,
//! marks and sets of words.
//!
//! Spellings with the same meaning become equal here: sets instead of lists, numbers instead of
//! their texts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::net::{IpNet, ip_mask_to_prefix};
use crate::rules::error::LineError;

/// Value of a comparison, and whether `!` inverts the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Negatable<T> {
    /// Everything but `value` matches.
    pub negated: bool,
    pub value: T,
}

impl<T> Negatable<T> {
    /// Returns the result of the condition for a packet whose property is equal to the value, or is
    /// not.
    pub const fn matches_if(&self, is_equal: bool) -> bool {
        is_equal != self.negated
    }

    pub(super) const fn prefix(&self) -> &'static str {
        if self.negated { "! " } else { "" }
    }
}

/// Ports from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

impl PortRange {
    pub(crate) const fn single(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    /// Reports whether any one of `ports` is in the range; `None` if only some of them are.
    pub(crate) const fn contains_any(self, ports: Self) -> Option<bool> {
        if self.last < ports.first || ports.last < self.first {
            Some(false)
        } else if self.first <= ports.first && ports.last <= self.last {
            Some(true)
        } else {
            None
        }
    }

    /// Parses `80`, `80:90`, `:90` or `80:`. Names of services are not resolved.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let Some((first, last)) = text.split_once(':') else {
            let port = text.parse().ok()?;
            return Some(Self::single(port));
        };
        let bound = |text: &str, open: u16| match text {
            "" => Some(open),
            digits => digits.parse().ok(),
        };
        let range = Self {
            first: bound(first, 0)?,
            last: bound(last, u16::MAX)?,
        };
        (range.first <= range.last).then_some(range)
    }

    /// Returns the normal form; `None` for all ports, which is no condition at all. The nft
    /// backend prints "not up to 1024" as "from 1025", so that is the normal form.
    pub(super) const fn normal(self, negated: bool) -> Option<Negatable<Self>> {
        let (negated, first, last) = match (negated, self.first, self.last) {
            (false, 0, u16::MAX) => return None,
            (true, 0, last) if last < u16::MAX => (false, last + 1, u16::MAX),
            (true, first, u16::MAX) if first > 0 => (false, 0, first - 1),
            as_written => as_written,
        };
        let value = Self { first, last };
        Some(Negatable { negated, value })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}:{}", self.first, self.last)
    }
}

/// Value and mask of the `mark` match or the `MARK` target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MarkBits {
    /// Bits to compare with, or to set.
    pub value: u32,
    /// Bits that are compared, or cleared first.
    pub mask: u32,
}

impl MarkBits {
    /// Reports whether the masked bits of a mark equal the value, as the `mark` match does.
    pub const fn matches(self, mark: u32) -> bool {
        mark & self.mask == self.value
    }

    /// Returns the mark after the `MARK` target: clears the masked bits, then flips those of the
    /// value.
    pub const fn apply(self, mark: u32) -> u32 {
        (mark & !self.mask) ^ self.value
    }

    /// Converts each spelling of `MARK` and `CONNMARK` to the bits to clear and the bits to flip;
    /// `None` for options that do not set bits.
    pub(crate) fn set_by(option: &str, value: &str) -> Option<Self> {
        let bits = |value, mask| Some(Self { value, mask });
        match option {
            "--set-xmark" => Self::read(value),
            "--set-mark" => Self::read(value).and_then(|set| bits(set.value, set.mask | set.value)),
            "--or-mark" => number(value).and_then(|or| bits(or, or)),
            "--xor-mark" => number(value).and_then(|xor| bits(xor, 0)),
            "--and-mark" => number(value).and_then(|and| bits(0, !and)),
            _ => None,
        }
    }

    /// Parses `VALUE/MASK`, or `VALUE` with all bits as mask.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (number(value)?, number(mask)?),
            None => (number(text)?, u32::MAX),
        };
        Some(Self { value, mask })
    }
}

/// Parses a number like C's `strtoul` with base 0.
pub(crate) fn number(text: &str) -> Option<u32> {
    match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) if !digits.is_empty() => u32::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// Subset of a fixed list of at most sixteen names. Lists are written in any order, compare as
/// sets, and are printed in the order that libxtables uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Bitset(u16);

impl Bitset {
    /// Parses a list with commas; `None` if it has a name that is not in `all`.
    fn read(text: &str, all: &[&str]) -> Option<Self> {
        let mut bits = 0;
        for name in text.split(',') {
            bits |= 1 << all.iter().position(|known| *known == name)?;
        }
        Some(Self(bits))
    }

    fn contains(self, name: &str, all: &[&str]) -> bool {
        Self::read(name, all).is_some_and(|one| self.0 & one.0 != 0)
    }

    fn write(self, f: &mut fmt::Formatter<'_>, all: &[&str]) -> fmt::Result {
        let mut comma = "";
        for (bit, name) in all.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{comma}{name}")?;
                comma = ",";
            }
        }
        Ok(())
    }
}

/// States of `--ctstate` and `--state`, in the order in which they are printed.
const STATES: &[&str] = &[
    "INVALID",
    "NEW",
    "RELATED",
    "ESTABLISHED",
    "UNTRACKED",
    "SNAT",
    "DNAT",
];

/// Set of conntrack states that `--ctstate` or `--state` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConntrackStates(Bitset);

impl ConntrackStates {
    pub(crate) fn read(text: &str) -> Option<Self> {
        Bitset::read(text, STATES).map(Self)
    }

    /// Reports whether the set has the state; `name` is as in rules, for example `DNAT`.
    pub fn contains(self, name: &str) -> bool {
        self.0.contains(name, STATES)
    }
}

impl fmt::Display for ConntrackStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, STATES)
    }
}

/// Types of `--dst-type` in the order of `rtnetlink.h`, in which they are printed.
const TYPES: &[&str] = &[
    "UNSPEC",
    "UNICAST",
    "LOCAL",
    "BROADCAST",
    "ANYCAST",
    "MULTICAST",
    "BLACKHOLE",
    "UNREACHABLE",
    "PROHIBIT",
    "THROW",
    "NAT",
    "XRESOLVE",
];

/// Set of address types that `--src-type` or `--dst-type` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressTypes(Bitset);

impl AddressTypes {
    pub(crate) fn read(text: &str) -> Option<Self> {
        Bitset::read(text, TYPES).map(Self)
    }

    /// Reports whether the set has the type; `name` is as in rules, for example `LOCAL`.
    pub fn contains(self, name: &str) -> bool {
        self.0.contains(name, TYPES)
    }
}

impl fmt::Display for AddressTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, TYPES)
    }
}

/// Network of `-s` or `-d`.
///
/// # Invariants
///
/// - Address and mask are of one family.
/// - The address has no bit outside the mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    address: IpAddr,
    mask: IpAddr,
}

impl Network {
    /// Reports whether the address is in the network; false for an address of the other family.
    pub fn contains(self, ip: IpAddr) -> bool {
        masked(ip, self.mask) == Some(self.address)
    }

    /// Returns the address if the network has only one.
    pub fn host(self) -> Option<IpAddr> {
        let bits = if self.mask.is_ipv4() { 32 } else { 128 };
        (self.prefix() == Some(bits)).then_some(self.address)
    }

    /// Returns the address that comes `distance` after the first, if it is in the network.
    pub fn nth(self, distance: u32) -> Option<IpAddr> {
        let ip = match self.address {
            IpAddr::V4(first) => IpAddr::V4(first.to_bits().checked_add(distance)?.into()),
            IpAddr::V6(first) => {
                let bits = first.to_bits().checked_add(u128::from(distance))?;
                IpAddr::V6(bits.into())
            }
        };
        self.contains(ip).then_some(ip)
    }

    /// Returns the address with its masked bits taken from the network, as `NETMAP` does; `None`
    /// for an address of the other family.
    pub(crate) fn mapped(self, ip: IpAddr) -> Option<IpAddr> {
        Some(match (ip, self.address, self.mask) {
            (IpAddr::V4(ip), IpAddr::V4(to), IpAddr::V4(mask)) => IpAddr::V4(to | (ip & !mask)),
            (IpAddr::V6(ip), IpAddr::V6(to), IpAddr::V6(mask)) => IpAddr::V6(to | (ip & !mask)),
            _ => return None,
        })
    }

    /// Reports whether every address is in the network; iptables does not print such a network.
    pub fn is_all(self) -> bool {
        self.prefix() == Some(0)
    }

    /// Returns the prefix length; `None` for a mask with holes.
    fn prefix(self) -> Option<u8> {
        ip_mask_to_prefix(self.mask).ok()
    }
}

impl FromStr for Network {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Self, LineError> {
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        read(address, mask).ok_or_else(|| LineError::InvalidAddress(text.to_owned()))
    }
}

fn read(address: &str, mask: Option<&str>) -> Option<Network> {
    let ip: IpAddr = address.parse().ok()?;
    let mask = match mask {
        None => IpNet::from(ip).netmask(),
        Some(text) => match text.parse() {
            Ok(length) => IpNet::new(ip, length).ok()?.netmask(),
            Err(_) => text.parse().ok()?,
        },
    };
    let address = masked(ip, mask)?;
    Some(Network { address, mask })
}

fn masked(ip: IpAddr, mask: IpAddr) -> Option<IpAddr> {
    match (ip, mask) {
        (IpAddr::V4(ip), IpAddr::V4(mask)) => Some(IpAddr::V4(ip & mask)),
        (IpAddr::V6(ip), IpAddr::V6(mask)) => Some(IpAddr::V6(ip & mask)),
        _ => None,
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix() {
            Some(length) => write!(f, "{}/{length}", self.address),
            None => write!(f, "{}/{}", self.address, self.mask),
        }
    }
}

#[cfg(test)]
#[path = "tests/network.rs"]
mod tests;
