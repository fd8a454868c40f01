//! Ranges of the values that are assumed for Services, and their allocation by name.
//!
//! # Invariants
//!
//! The index of a value in its range, its slot, is the hash of the name modulo the size of the
//! range. If the slot is taken (set explicitly, or allocated to an earlier name), the next free one
//! is used. Equal manifests therefore give equal allocations on every node and after a restart,
//! although allocations are not stored as in an API server. But an additional Service can change
//! the value of another one.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::net::{IpFamily, IpNet, PerFamily};

/// Ranges from which Services get the values that their manifests do not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestRanges {
    /// Cluster IPs.
    pub services: PerFamily<IpNet>,
    /// Node ports and health check node ports.
    pub node_ports: NodePortRange,
    /// Load balancer IPs; `None` if none are assumed, as by the daemon.
    pub load_balancers: Option<PerFamily<IpNet>>,
}

impl Default for ManifestRanges {
    /// Ranges of kubeadm, `10.96.0.0/12` and `30000-32767`; `fd00:10:96::/112` for IPv6.
    fn default() -> Self {
        let v6 = Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0);
        Self {
            services: PerFamily {
                v4: IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 0)), 12),
                v6: IpNet::new_assert(IpAddr::V6(v6), 112),
            },
            node_ports: NodePortRange::DEFAULT,
            load_balancers: None,
        }
    }
}

/// Range of node ports, as in `30000-32767`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePortRange {
    /// Not 0.
    pub(super) first: u16,
    /// Not less than `first`.
    pub(super) last: u16,
}

impl NodePortRange {
    /// Default of the API server: 30000-32767.
    pub const DEFAULT: Self = Self {
        first: 30000,
        last: 32767,
    };
}

impl fmt::Display for NodePortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Error for a text that is not a [`NodePortRange`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid range of ports (example: 30000-32767)")]
pub struct NotAPortRange(String);

impl FromStr for NodePortRange {
    type Err = NotAPortRange;

    fn from_str(text: &str) -> Result<Self, NotAPortRange> {
        let ports = text.split_once('-').and_then(|(first, last)| {
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (0 < first && first <= last).then_some(Self { first, last })
        });
        ports.ok_or_else(|| NotAPortRange(text.to_owned()))
    }
}

/// Addresses that are taken, and the ranges for allocations.
#[derive(Debug)]
pub(super) struct IpPool {
    ranges: PerFamily<IpNet>,
    taken: HashSet<IpAddr>,
}

impl IpPool {
    /// Returns a pool that does not allocate the addresses in `taken`.
    pub(super) fn new(ranges: PerFamily<IpNet>, taken: HashSet<IpAddr>) -> Self {
        Self { ranges, taken }
    }

    /// Allocates the address that the hash of `name` selects, or the next free one. `None` if the
    /// range is full.
    pub(super) fn allocate(&mut self, name: &str, family: IpFamily) -> Option<IpAddr> {
        let slots = Slots::of(*self.ranges.get(family));
        let address = |slot| slots.address(slot);
        allocate(&mut self.taken, name, slots.count, address)
    }
}

/// Node ports that are taken, of Services and of health checks, and the range for allocations.
#[derive(Debug)]
pub(super) struct PortPool {
    range: NodePortRange,
    taken: HashSet<u16>,
}

impl PortPool {
    /// Returns a pool that never allocates the ports in `taken`. As in the API server, a port that
    /// is taken for one protocol is not allocated for another.
    pub(super) fn new(range: NodePortRange, taken: HashSet<u16>) -> Self {
        Self { range, taken }
    }

    /// Allocates the port that the hash of `name` selects, or the next free one. `None` if the
    /// range is full.
    pub(super) fn allocate(&mut self, name: &str) -> Option<u16> {
        let NodePortRange { first, last } = self.range;
        let count = u128::from(last - first) + 1;
        // Within the range, hence within 16 bits.
        let port = |slot: u128| first + u16::try_from(slot).unwrap_or_default();
        allocate(&mut self.taken, name, count, port)
    }
}

/// Takes the value in the slot that the hash of `name` selects, or in the next free one.
fn allocate<T: Copy + Eq + Hash>(
    taken: &mut HashSet<T>,
    name: &str,
    slots: u128,
    value: impl Fn(u128) -> T,
) -> Option<T> {
    let start = hash(name) % slots;
    // Enough: one more slot than are taken, or the whole range.
    let tries = (taken.len() as u128 + 1).min(slots);
    let mut values = (0..tries).map(|step| value((start + step) % slots));
    let free = values.find(|value| !taken.contains(value))?;
    taken.insert(free);
    Some(free)
}

/// Allocatable addresses of a range: without the first and the last one, which are the network and
/// broadcast addresses in IPv4, unless the range has no others.
///
/// Upstream: pkg/registry/core/service/ipallocator/ipallocator.go, `NewIPAllocator` (v1.37)
///
/// Differs from upstream: the last address of IPv6 is left out as well, so that both families have
/// one rule.
pub(super) struct Slots {
    first: IpAddr,
    /// At least 1.
    pub(super) count: u128,
}

impl Slots {
    pub(super) fn of(range: IpNet) -> Self {
        let bits = range.max_prefix_len() - range.prefix_len();
        // One bit less than `u128` has, so that the shift cannot overflow for a /0 of IPv6.
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

    pub(super) fn address(&self, slot: u128) -> IpAddr {
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

/// Returns a hash that is the same in every release and on every node.
pub(super) fn hash(name: &str) -> u128 {
    let digest = Sha256::digest(name.as_bytes());
    let bytes = digest.first_chunk::<16>().copied().unwrap_or_default();
    // Half of the bits, so that adding a step cannot overflow.
    u128::from_be_bytes(bytes) >> 64
}

#[cfg(test)]
#[path = "tests/pools.rs"]
mod tests;
