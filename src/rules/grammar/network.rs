//! Parses, prints and compares networks of rules: an address and any mask.
//!
//! [`IpNet`](ipnet::IpNet) is not enough: netfilter accepts masks with holes, and a rule set read
//! from the kernel may contain them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::rules::error::LineError;

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
    fn prefix(self) -> Option<u32> {
        let (ones, zeros, bits) = match self.mask {
            IpAddr::V4(mask) => {
                let mask = mask.to_bits();
                (mask.leading_ones(), mask.trailing_zeros(), 32)
            }
            IpAddr::V6(mask) => {
                let mask = mask.to_bits();
                (mask.leading_ones(), mask.trailing_zeros(), 128)
            }
        };
        (ones + zeros == bits).then_some(ones)
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
        None => prefix_mask(ip, if ip.is_ipv4() { 32 } else { 128 })?,
        Some(text) => match text.parse::<u32>() {
            Ok(length) => prefix_mask(ip, length)?,
            Err(_) => text.parse().ok()?,
        },
    };
    let address = masked(ip, mask)?;
    Some(Network { address, mask })
}

fn prefix_mask(ip: IpAddr, length: u32) -> Option<IpAddr> {
    Some(match ip {
        IpAddr::V4(_) => {
            let zeros = 32_u32.checked_sub(length)?;
            Ipv4Addr::from_bits(u32::MAX.checked_shl(zeros).unwrap_or(0)).into()
        }
        IpAddr::V6(_) => {
            let zeros = 128_u32.checked_sub(length)?;
            Ipv6Addr::from_bits(u128::MAX.checked_shl(zeros).unwrap_or(0)).into()
        }
    })
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
