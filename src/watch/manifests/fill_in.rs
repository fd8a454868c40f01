//! Sets values that Services lack, as an API server does: cluster IPs, node ports and health check
//! node ports. For commands, load balancer IPs as well, which a controller would report. Returns
//! the lines that report these values.
//!
//! # Invariants
//!
//! The index of a value in its range, its slot, is the hash of the name modulo the size of the
//! range. If the slot is taken (set explicitly, or allocated to an earlier name), the next free one
//! is used. Equal manifests therefore give equal allocations on every node and after a restart,
//! although allocations are not stored as in an API server. But an additional Service can change
//! the value of another one.
//!
//! # Source
//!
//! Upstream: pkg/registry/core/service/storage/alloc.go, `initIPFamilyFields`, `initNodePorts`,
//! `allocHealthCheckNodePort` (v1.37)

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::ingest::{Ingress, ServiceObject, ServicePortObject, ServiceSpec};
use crate::net::{IpFamily, IpNet, PerFamily, parse_ip};
use crate::text::first_of;

/// Assumes missing values of the Services for which `is_selected` is true. Values that any Service
/// sets, selected or not, are not free. Returns the assumed values, and the problems.
pub(super) fn fill_in(
    services: &mut [Arc<ServiceObject>],
    is_selected: impl Fn(&ServiceObject) -> bool,
    assumes_load_balancer_ips: bool,
) -> (Vec<Assumption>, Vec<String>) {
    let mut allocator = ValueAllocator::new(services, assumes_load_balancer_ips);
    for service in services.iter_mut().filter(|one| is_selected(one)) {
        allocator.fill_in(service);
    }
    (allocator.assumptions, allocator.problems)
}

fn name(service: &ServiceObject) -> String {
    let metadata = &service.metadata;
    format!("{}/{}", metadata.namespace, metadata.name)
}

/// Allocator of missing values, which knows those that are taken. Records the assumed ones, and the
/// problems.
struct ValueAllocator {
    cluster_ips: HashSet<IpAddr>,
    /// Also health check node ports.
    node_ports: HashSet<u16>,
    load_balancer_ips: HashSet<IpAddr>,
    assumptions: Vec<Assumption>,
    problems: Vec<String>,
    assumes_load_balancer_ips: bool,
}

impl ValueAllocator {
    fn new(services: &[Arc<ServiceObject>], assumes_load_balancer_ips: bool) -> Self {
        let specs = || services.iter().map(|service| &service.spec);
        let cluster_ips = specs()
            .flat_map(|spec| spec.cluster_ips.iter().chain([&spec.cluster_ip]))
            .filter_map(|text| parse_ip(text));
        let ports = specs().flat_map(|spec| {
            let ports = spec.ports.iter().map(|port| port.node_port);
            ports.chain([spec.health_check_node_port])
        });
        let balancers = services.iter().map(|one| &one.status.load_balancer);
        let ingress = balancers.flat_map(|balancer| &balancer.ingress);
        Self {
            cluster_ips: cluster_ips.collect(),
            node_ports: ports.filter_map(|port| u16::try_from(port).ok()).collect(),
            load_balancer_ips: ingress.filter_map(|one| parse_ip(&one.ip)).collect(),
            assumptions: Vec::new(),
            problems: Vec::new(),
            assumes_load_balancer_ips,
        }
    }

    fn fill_in(&mut self, service: &mut Arc<ServiceObject>) {
        if !service.spec.needs_cluster_ip() {
            return;
        }
        self.set_cluster_ips(service);
        if allocates_node_ports(&service.spec) {
            self.set_node_ports(service);
        }
        if has_health_check(&service.spec) && service.spec.health_check_node_port == 0 {
            let name = name(service);
            let number = self.allocate_port(&format!("{name} health"));
            let number = self.assume(AssumedValueKind::HealthCheckNodePort, &name, number);
            if let Some(number) = number {
                Arc::make_mut(service).spec.health_check_node_port = number.into();
            }
        }
        let has_ingress = !service.status.load_balancer.ingress.is_empty();
        let is_load_balancer = service.spec.type_ == "LoadBalancer";
        if self.assumes_load_balancer_ips && is_load_balancer && !has_ingress {
            self.set_load_balancer_ips(service);
        }
    }

    /// Sets families and cluster IPs. Does not copy an object that has all of them.
    fn set_cluster_ips(&mut self, service: &mut Arc<ServiceObject>) {
        let name = name(service);
        let spec = &service.spec;
        let mut ips = spec.cluster_ips.clone();
        if ips.is_empty() {
            ips.extend(Some(spec.cluster_ip.clone()).filter(|ip| !ip.is_empty()));
        }
        let families = families(spec, &ips);
        for text in families.iter().skip(ips.len()) {
            let range = IpFamily::from_api(text).map(|family| *CLUSTER_IPS.get(family));
            let ip = range.and_then(|range| allocate_ip(&mut self.cluster_ips, &name, range));
            let ip = self.assume(AssumedValueKind::ClusterIp, &name, ip);
            ips.push(ip.map(|ip| ip.to_string()).unwrap_or_default());
        }
        if ips != spec.cluster_ips || families != spec.ip_families || spec.cluster_ip.is_empty() {
            let spec = &mut Arc::make_mut(service).spec;
            // Empty if the first family has no free address: then the Service counts as one without
            // a cluster IP, whatever the second family has.
            spec.cluster_ip = ips.first().cloned().unwrap_or_default();
            spec.cluster_ips = ips;
            spec.ip_families = families;
        }
    }

    fn set_node_ports(&mut self, service: &mut Arc<ServiceObject>) {
        let name = name(service);
        for index in 0..service.spec.ports.len() {
            let ports = &service.spec.ports;
            let Some(port) = ports.get(index).filter(|port| port.node_port == 0) else {
                continue;
            };
            // As upstream: one number for all protocols of a port.
            let same = |one: &&ServicePortObject| one.port == port.port && one.node_port != 0;
            let number = ports.iter().find(same).map(|same| same.node_port);
            let number = number.or_else(|| {
                let key = format!("{name}:{}", port.port);
                let number = self.allocate_port(&key);
                let number = self.assume(AssumedValueKind::NodePort, &key, number);
                number.map(Into::into)
            });
            let spec = &mut Arc::make_mut(service).spec;
            if let (Some(port), Some(number)) = (spec.ports.get_mut(index), number) {
                port.node_port = number;
            }
        }
    }

    fn allocate_port(&mut self, key: &str) -> Option<u16> {
        allocate_port(&mut self.node_ports, key, NODE_PORTS)
    }

    /// Sets the addresses that a controller would report.
    fn set_load_balancer_ips(&mut self, service: &mut Arc<ServiceObject>) {
        let name = name(service);
        let mut ingress = Vec::new();
        let families = service.spec.ip_families.clone();
        let known = IpFamily::ALL.into_iter();
        for family in known.filter(|one| families.iter().any(|text| one.as_str() == text)) {
            let range = *LOAD_BALANCER_IPS.get(family);
            let ip = allocate_ip(&mut self.load_balancer_ips, &name, range);
            let ip = self.assume(AssumedValueKind::LoadBalancerIp, &name, ip);
            ingress.extend(ip.map(|ip| Ingress {
                ip: ip.to_string(),
                ip_mode: None,
            }));
        }
        Arc::make_mut(service).status.load_balancer.ingress = ingress;
    }

    /// Records an assumed value, or the problem that none is free.
    fn assume<T: ToString>(
        &mut self,
        kind: AssumedValueKind,
        subject: &str,
        value: Option<T>,
    ) -> Option<T> {
        let Some(value) = value else {
            let what = match kind {
                AssumedValueKind::ClusterIp => "cluster IP",
                AssumedValueKind::LoadBalancerIp => "load balancer IP",
                _ => "node port",
            };
            self.problems
                .push(format!("Service `{subject}`: no free {what} in the range"));
            return None;
        };
        self.assumptions.push(Assumption {
            kind,
            subject: subject.to_owned(),
            value: value.to_string(),
        });
        Some(value)
    }
}

/// Returns the families that are set, or else those of the addresses, or else IPv4. A policy other
/// than `SingleStack` adds the second one.
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

fn allocates_node_ports(spec: &ServiceSpec) -> bool {
    match spec.type_.as_str() {
        "NodePort" => true,
        "LoadBalancer" => spec.allocate_load_balancer_node_ports != Some(false),
        _ => false,
    }
}

/// Upstream: pkg/api/service/util.go, `NeedsHealthCheck` (v1.37)
fn has_health_check(spec: &ServiceSpec) -> bool {
    spec.type_ == "LoadBalancer" && spec.external_traffic_policy == "Local"
}

/// Assumed value of one Service. Ordered by kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Assumption {
    pub kind: AssumedValueKind,
    /// Namespace and name of the Service; for a node port, then `:` and the service port.
    pub subject: String,
    pub value: String,
}

/// Kind of an assumed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AssumedValueKind {
    /// Cluster IP, which an API server allocates.
    ClusterIp,
    /// Node port of a service port, which an API server allocates.
    NodePort,
    /// Health check node port, which an API server allocates.
    HealthCheckNodePort,
    /// Load balancer IP, which a controller reports.
    LoadBalancerIp,
    /// Endpoints of a selector, for which a controller creates EndpointSlices.
    Endpoints,
}

/// Maximum values that a line names: a few examples of what to look for in the output.
const MAX_EXAMPLES: usize = 3;

/// Returns a line for each kind of value: the range of the values, and the first of them with their
/// Services.
pub(crate) fn assumption_lines(assumptions: &[Assumption]) -> Vec<String> {
    let mut by_kind: BTreeMap<AssumedValueKind, Vec<&Assumption>> = BTreeMap::new();
    for one in assumptions {
        by_kind.entry(one.kind).or_default().push(one);
    }
    let line = |(kind, mut values): (AssumedValueKind, Vec<&Assumption>)| {
        values.sort_unstable();
        values.dedup();
        let shown = values
            .iter()
            .map(|one| format!("{} {}", one.subject, one.value));
        let shown = first_of(shown, MAX_EXAMPLES);
        format!("{}: {shown}", kind.description())
    };
    by_kind.into_iter().map(line).collect()
}

impl AssumedValueKind {
    fn description(self) -> String {
        match self {
            Self::ClusterIp => format!("cluster IPs from {}", pair(CLUSTER_IPS)),
            Self::NodePort => format!("node ports from {}", node_ports()),
            Self::HealthCheckNodePort => format!("health check node ports from {}", node_ports()),
            Self::LoadBalancerIp => format!("load balancer IPs from {}", pair(LOAD_BALANCER_IPS)),
            Self::Endpoints => {
                "two endpoints for each selector, the first one on this node".to_owned()
            }
        }
    }
}

fn node_ports() -> String {
    format!("{}-{}", NODE_PORTS.start(), NODE_PORTS.end())
}

fn pair(ranges: PerFamily<IpNet>) -> String {
    format!("{},{}", ranges.v4, ranges.v6)
}

/// Networks of cluster IPs: those of kubeadm, and one like them for IPv6.
pub(crate) const CLUSTER_IPS: PerFamily<IpNet> = PerFamily {
    v4: IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 0)), 12),
    v6: IpNet::new_assert(
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0)),
        112,
    ),
};

/// Networks of load balancer IPs. They are for benchmarks of networks (RFC 2544 and RFC 5180):
/// never routed, and large enough for many Services.
const LOAD_BALANCER_IPS: PerFamily<IpNet> = PerFamily {
    v4: IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)), 16),
    v6: IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0)), 64),
};

/// Node ports and health check node ports: the default of the API server.
const NODE_PORTS: RangeInclusive<u16> = 30000..=32767;

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
    range: RangeInclusive<u16>,
) -> Option<u16> {
    let (first, last) = range.into_inner();
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
