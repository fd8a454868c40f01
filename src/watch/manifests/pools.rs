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

use sha2::{Digest, Sha256};

use crate::net::{IpNet, PerFamily};

/// Ranges from which Services get the values that their manifests do not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestRanges {
    /// Cluster IPs.
    pub services: PerFamily<IpNet>,
    /// Node ports and health check node ports.
    pub node_ports: NodePortRange,
    /// Load balancer IPs: [`LOAD_BALANCERS`], or none, as by the daemon.
    pub load_balancers: Option<PerFamily<IpNet>>,
}

/// Networks for load balancer IPs. They are for benchmarks of networks (RFC 2544 and RFC 5180):
/// never routed, and large enough for many Services.
#[cfg(feature = "tools")]
pub(crate) const LOAD_BALANCERS: PerFamily<IpNet> = PerFamily {
    v4: IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)), 16),
    v6: IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0)), 64),
};

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
    pub(crate) first: u16,
    /// Not less than `first`.
    pub(crate) last: u16,
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

/// Allocates the address that the hash of `name` selects in a range, or the next one that is not
/// taken. `None` if the range is full.
pub(super) fn allocate_ip(taken: &mut HashSet<IpAddr>, name: &str, range: IpNet) -> Option<IpAddr> {
    let slots = Slots::of(range);
    allocate(taken, name, slots.count, |slot| slots.address(slot))
}

/// Allocates a port like [`allocate_ip`]. As in the API server, a port that is taken for one
/// protocol is not allocated for another.
pub(super) fn allocate_port(
    taken: &mut HashSet<u16>,
    name: &str,
    NodePortRange { first, last }: NodePortRange,
) -> Option<u16> {
    let count = u128::from(last - first) + 1;
    // Within the range, hence within 16 bits.
    let port = |slot: u128| first + u16::try_from(slot).unwrap_or_default();
    allocate(taken, name, count, port)
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
    network: IpAddr,
    /// Number of addresses before the first slot.
    skipped: u128,
    /// At least 1.
    pub(super) count: u128,
}

impl Slots {
    pub(super) fn of(range: IpNet) -> Self {
        let bits = range.max_prefix_len() - range.prefix_len();
        // One bit less than `u128` has, so that the shift cannot overflow for a /0 of IPv6.
        let size = 1_u128 << bits.min(127);
        let (skipped, count) = if size > 2 { (1, size - 2) } else { (0, size) };
        Self {
            network: range.network(),
            skipped,
            count,
        }
    }

    pub(super) fn address(&self, slot: u128) -> IpAddr {
        let offset = self.skipped + slot;
        match self.network {
            // Within the range, hence within 32 bits.
            IpAddr::V4(first) => {
                let offset = u32::try_from(offset).unwrap_or_default();
                Ipv4Addr::from_bits(first.to_bits().wrapping_add(offset)).into()
            }
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(offset)).into(),
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
