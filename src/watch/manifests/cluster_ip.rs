//! Cluster IPs for Services that were written without one.
//!
//! Apart because an API server would keep a record of what it gave to whom, and we have none: an
//! address must follow from the Service's name alone, so that it survives a restart and is the
//! same on every node that reads the same manifests.
//!
//! # Invariants
//!
//! An address depends on the name, the range and, only where two names fall on the same address,
//! on which of them comes first in the order of allocation.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest, Sha256};

use crate::net::{IpFamily, IpNet, PerFamily};

/// Gives out addresses.
pub(super) struct Allocator {
    ranges: PerFamily<IpNet>,
    taken: HashSet<IpAddr>,
}

impl Allocator {
    /// An allocator that never gives out `taken`.
    pub(super) fn new(ranges: PerFamily<IpNet>, taken: HashSet<IpAddr>) -> Self {
        Self { ranges, taken }
    }

    /// The address of `name` in `family`: where its hash points to, or the next free one. `None`
    /// if the range is full.
    pub(super) fn allocate(&mut self, name: &str, family: IpFamily) -> Option<IpAddr> {
        let slots = Slots::of(*self.ranges.get(family));
        let start = hash(name) % slots.count;
        // Not more tries than addresses could be taken, or there are.
        let tries = (self.taken.len() as u128 + 1).min(slots.count);
        let free = (0..tries)
            .map(|step| slots.address((start + step) % slots.count))
            .find(|ip| !self.taken.contains(ip))?;
        self.taken.insert(free);
        Some(free)
    }
}

/// The addresses of a range that may be given out: neither the first, which names the network, nor
/// the last, which IPv4 broadcasts to, where there are any others.
struct Slots {
    first: IpAddr,
    /// At least 1.
    count: u128,
}

impl Slots {
    fn of(range: IpNet) -> Self {
        let bits = range.max_prefix_len() - range.prefix_len();
        // One bit less than the numbers have: a /0 of IPv6 has more addresses than anybody needs.
        let size = 1_u128 << bits.min(127);
        if size <= 2 {
            return Self {
                first: range.network(),
                count: size,
            };
        }
        let count = size - 2;
        let network = Self {
            first: range.network(),
            count,
        };
        Self {
            first: network.address(1),
            count,
        }
    }

    fn address(&self, slot: u128) -> IpAddr {
        match self.first {
            // Within the range, hence within 32 bits.
            IpAddr::V4(first) => {
                let slot = u32::try_from(slot).unwrap_or_default();
                Ipv4Addr::from_bits(first.to_bits().wrapping_add(slot)).into()
            }
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(slot)).into(),
        }
    }
}

/// The same in every version and on every machine.
fn hash(name: &str) -> u128 {
    let digest = Sha256::digest(name.as_bytes());
    let bytes = digest.first_chunk::<16>().copied().unwrap_or_default();
    // Half of the bits, so that adding a step cannot overflow.
    u128::from_be_bytes(bytes) >> 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocator(v4: &str, v6: &str, taken: &[&str]) -> Allocator {
        let ranges = PerFamily {
            v4: v4.parse().unwrap(),
            v6: v6.parse().unwrap(),
        };
        let taken = taken.iter().map(|ip| ip.parse().unwrap());
        Allocator::new(ranges, taken.collect())
    }

    #[track_caller]
    fn check(v4: &str, v6: &str, family: IpFamily, expected: &str) {
        let found = allocator(v4, v6, &[]).allocate("shop/cart", family);
        assert_eq!(found.unwrap().to_string(), expected);
    }

    /// Written down so that no release moves addresses.
    #[test]
    fn address_follows_from_the_name() {
        check(
            "10.96.0.0/12",
            "fd00:10:96::/112",
            IpFamily::V4,
            "10.108.76.165",
        );
        check(
            "10.96.0.0/12",
            "fd00:10:96::/112",
            IpFamily::V6,
            "fd00:10:96::dc5",
        );
        check("10.96.0.7/32", "::/0", IpFamily::V4, "10.96.0.7");
    }

    #[test]
    fn taken_addresses_are_passed_over() {
        let mut range = allocator("10.96.0.0/29", "fd00::/126", &["10.96.0.1", "10.96.0.6"]);
        let mut given: Vec<String> = (0..4)
            .map(|number| range.allocate(&number.to_string(), IpFamily::V4))
            .map(|ip| ip.unwrap().to_string())
            .collect();
        given.sort();
        assert_eq!(given, ["10.96.0.2", "10.96.0.3", "10.96.0.4", "10.96.0.5"]);
        assert_eq!(range.allocate("5", IpFamily::V4), None);
        assert!(range.allocate("5", IpFamily::V6).is_some());
    }
}
