//! Sets what an API server would have defaulted: namespaces, IP families and cluster IPs.
//!
//! [`ingest`](crate::ingest) expects stored objects, in which all of this is set.
//!
//! # Source
//!
//! Upstream: pkg/registry/core/service/storage/alloc.go, `initIPFamilyFields`,
//! `allocClusterIPs` (v1.36)

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::ingest::{EndpointSliceObject, Metadata, ServiceObject, ServiceSpec};
use crate::net::{IpFamily, IpNet, PerFamily, parse_ip};

/// Sets the namespace `default` if the object has none.
pub(super) fn default_namespace(metadata: &mut Metadata) {
    if metadata.namespace.is_empty() {
        "default".clone_into(&mut metadata.namespace);
    }
}

/// Sets the empty name of ports without a name.
pub(super) fn default_port_names(object: &mut EndpointSliceObject) {
    for port in &mut object.ports {
        port.name.get_or_insert_default();
    }
}

/// Returns the cluster IPs that are set, which no other Service may get.
pub(super) fn explicit_cluster_ips<'a>(
    specs: impl Iterator<Item = &'a ServiceSpec>,
) -> HashSet<IpAddr> {
    specs
        .flat_map(|spec| spec.cluster_ips.iter().chain([&spec.cluster_ip]))
        .filter_map(|text| parse_ip(text))
        .collect()
}

/// Sets families and cluster IPs of a Service that is neither headless nor of type `ExternalName`.
/// An object that has all of them is not copied. Returns `false` if a range has no free address.
pub(super) fn allocate_cluster_ips(
    object: &mut Arc<ServiceObject>,
    allocator: &mut Allocator,
) -> bool {
    let spec = &object.spec;
    let mut ips = spec.cluster_ips.clone();
    if ips.is_empty() {
        ips.extend(Some(spec.cluster_ip.clone()).filter(|ip| !ip.is_empty()));
    }
    let is_headless = ips.first().is_some_and(|ip| ip == "None");
    if is_headless || spec.type_ == "ExternalName" {
        return true;
    }
    let families = families(spec, &ips);
    let name = format!("{}/{}", object.metadata.namespace, object.metadata.name);
    let mut is_complete = true;
    for family in families.iter().skip(ips.len()) {
        let known = IpFamily::ALL.into_iter().find(|one| one.as_str() == family);
        let ip = known.and_then(|family| allocator.allocate(&name, family));
        is_complete &= ip.is_some();
        ips.push(ip.map(|ip| ip.to_string()).unwrap_or_default());
    }
    if ips != spec.cluster_ips || families != spec.ip_families || spec.cluster_ip.is_empty() {
        let spec = &mut Arc::make_mut(object).spec;
        // Without the first address, the Service has none.
        spec.cluster_ip = ips.first().cloned().unwrap_or_default();
        spec.cluster_ips = ips;
        spec.ip_families = families;
    }
    is_complete
}

/// Returns the requested families: explicit, implied by addresses, or IPv4; both if the policy is
/// dual-stack.
fn families(spec: &ServiceSpec, ips: &[String]) -> Vec<String> {
    let mut families = spec.ip_families.clone();
    if families.is_empty() {
        let implied = ips.iter().map_while(|ip| parse_ip(ip)).map(IpFamily::of);
        families.extend(implied.map(|family| family.to_string()));
    }
    if families.is_empty() {
        families.push(IpFamily::V4.to_string());
    }
    let policy = spec.ip_family_policy.as_deref();
    if let ([only], Some("PreferDualStack" | "RequireDualStack")) = (families.as_slice(), policy) {
        let other = IpFamily::ALL.into_iter().find(|one| one.as_str() != only);
        families.extend(other.map(|family| family.to_string()));
    }
    families
}

/// Allocates cluster IPs.
///
/// # Invariants
///
/// An address depends on the name, the range and, only if two names have the same hash, on their
/// order of allocation. An API server would record its allocations. Without a record, an address
/// must follow from the name alone, so that it survives a restart and is the same on every node
/// that reads the same manifests.
pub(super) struct Allocator {
    ranges: PerFamily<IpNet>,
    taken: HashSet<IpAddr>,
}

impl Allocator {
    /// Returns an allocator that never allocates the addresses in `taken`.
    pub(super) fn new(ranges: PerFamily<IpNet>, taken: HashSet<IpAddr>) -> Self {
        Self { ranges, taken }
    }

    /// Allocates the address that the hash of `name` selects, or the next free one. `None` if the
    /// range is full.
    pub(super) fn allocate(&mut self, name: &str, family: IpFamily) -> Option<IpAddr> {
        let slots = Slots::of(*self.ranges.get(family));
        let start = hash(name) % slots.count;
        // No more tries than taken addresses, or addresses in the range.
        let tries = (self.taken.len() as u128 + 1).min(slots.count);
        let free = (0..tries)
            .map(|step| slots.address((start + step) % slots.count))
            .find(|ip| !self.taken.contains(ip))?;
        self.taken.insert(free);
        Some(free)
    }
}

/// Allocatable addresses of a range: without the network address and the broadcast address of
/// IPv4, unless the range has no others.
struct Slots {
    first: IpAddr,
    /// At least 1.
    count: u128,
}

impl Slots {
    fn of(range: IpNet) -> Self {
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

/// Returns a hash that is the same in every release and on every node.
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

    /// Literal addresses, so that no release changes them.
    #[test]
    fn a_cluster_ip_follows_from_the_name() {
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
    fn taken_addresses_are_skipped() {
        let mut range = allocator("10.96.0.0/29", "fd00::/126", &["10.96.0.1", "10.96.0.6"]);
        let mut allocated: Vec<String> = (0..4)
            .map(|number| range.allocate(&number.to_string(), IpFamily::V4))
            .map(|ip| ip.unwrap().to_string())
            .collect();
        allocated.sort();
        assert_eq!(
            allocated,
            ["10.96.0.2", "10.96.0.3", "10.96.0.4", "10.96.0.5"]
        );
        assert_eq!(range.allocate("5", IpFamily::V4), None);
        assert!(range.allocate("5", IpFamily::V6).is_some());
    }
}
