//! Sets values that Services lack, as an API server does: cluster IPs, node ports and health check
//! node ports. For commands, load balancer IPs as well, which a controller would report.
//!
//! # Source
//!
//! Upstream: pkg/registry/core/service/storage/alloc.go, `initIPFamilyFields`, `initNodePorts`,
//! `allocHealthCheckNodePort`; storage.go, `patchAllocatedValues` (v1.37)

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::assumption::{AssumedValueKind, Assumption};
use super::pools::ManifestRanges;
use super::pools::{IpPool, PortPool};
use crate::ingest::{Ingress, ServiceObject, ServicePortObject, ServiceSpec};
use crate::net::{IpFamily, parse_ip};

/// State of the same Services before or after an update, for `diff`.
#[derive(Debug, Clone, Copy)]
pub(super) enum OtherState<'a> {
    /// There is none.
    Absent,
    /// State before the update, already filled in. Missing values are taken from it: an API server
    /// keeps those that the update does not set.
    Before(&'a [Arc<ServiceObject>]),
    /// State after the update, not filled in yet. Missing values are taken from it, except node
    /// ports: if the update sets one, the Service had another before, which was allocated, and
    /// `diff` shows the change. The other values hardly ever change.
    After(&'a [Arc<ServiceObject>]),
}

impl<'a> OtherState<'a> {
    fn services(self) -> &'a [Arc<ServiceObject>] {
        match self {
            Self::Absent => &[],
            Self::Before(services) | Self::After(services) => services,
        }
    }
}

/// Sets missing values of the Services for which `is_selected` is true. A missing value is taken
/// from the same Service in `other` if it is free, or else assumed. Values that any Service sets,
/// selected or not, are not free. Returns the assumed values, and the problems.
pub(super) fn fill_in(
    services: &mut [Arc<ServiceObject>],
    is_selected: impl Fn(&ServiceObject) -> bool,
    ranges: &ManifestRanges,
    other: OtherState<'_>,
) -> (Vec<Assumption>, Vec<String>) {
    let mut allocator = ValueAllocator::new(services, ranges);
    let of_other = other.services().iter();
    let of_other: BTreeMap<_, _> = of_other.map(|one| (name(one), &**one)).collect();
    let selected = || services.iter().filter(|one| is_selected(one));
    // Values of the other state take precedence over allocated ones, so they are claimed first.
    let claimed: Vec<ClaimedValues> = selected()
        .map(|service| {
            let same = of_other.get(&name(service)).copied();
            allocator.claim_from_other_state(service, same, other)
        })
        .collect();
    let selected = services.iter_mut().filter(|one| is_selected(one));
    for (service, claimed) in selected.zip(claimed) {
        allocator.fill_in(service, &claimed);
    }
    (allocator.assumptions, allocator.problems)
}

fn name(service: &ServiceObject) -> String {
    let metadata = &service.metadata;
    format!("{}/{}", metadata.namespace, metadata.name)
}

/// Values that a Service takes from its other state.
#[derive(Debug, Default)]
struct ClaimedValues {
    cluster_ips: Vec<IpAddr>,
    /// By name of the service port.
    node_ports: BTreeMap<String, u16>,
    health_check: Option<u16>,
    ingress: Vec<Ingress>,
}

/// Allocator of missing values. Records the assumed ones, and the problems.
struct ValueAllocator {
    cluster_ips: IpPool,
    node_ports: PortPool,
    /// `None`: load balancer IPs are not assumed.
    load_balancers: Option<IpPool>,
    assumptions: Vec<Assumption>,
    problems: Vec<String>,
    ranges: ManifestRanges,
}

impl ValueAllocator {
    fn new(services: &[Arc<ServiceObject>], ranges: &ManifestRanges) -> Self {
        let specs = || services.iter().map(|service| &service.spec);
        let cluster_ips = specs()
            .flat_map(|spec| spec.cluster_ips.iter().chain([&spec.cluster_ip]))
            .filter_map(|text| parse_ip(text));
        let ports = specs().flat_map(|spec| {
            let ports = spec.ports.iter().map(|port| port.node_port);
            ports.chain([spec.health_check_node_port])
        });
        let ingress = services.iter().flat_map(|one| ingress_ips(one));
        let load_balancer_ips: HashSet<IpAddr> = ingress.collect();
        Self {
            cluster_ips: IpPool::new(ranges.services, cluster_ips.collect()),
            node_ports: PortPool::new(ranges.node_ports, ports.filter_map(port_number).collect()),
            load_balancers: ranges
                .load_balancers
                .map(|ranges| IpPool::new(ranges, load_balancer_ips)),
            assumptions: Vec::new(),
            problems: Vec::new(),
            ranges: *ranges,
        }
    }

    /// Claims those values of a Service in the other state that it lacks in this one, unless
    /// another Service has them.
    ///
    /// Upstream: pkg/registry/core/service/storage/storage.go, `patchAllocatedValues` (v1.37)
    fn claim_from_other_state(
        &mut self,
        service: &ServiceObject,
        other: Option<&ServiceObject>,
        state: OtherState<'_>,
    ) -> ClaimedValues {
        let mut claimed = ClaimedValues::default();
        let Some(other) = other else {
            return claimed;
        };
        let (own, of_other) = (&service.spec, &other.spec);
        let keeps_first = own.cluster_ip.is_empty() || own.cluster_ip == of_other.cluster_ip;
        if own.cluster_ips.is_empty() && keeps_first && of_other.needs_cluster_ip() {
            let ips = of_other.cluster_ips.iter().chain([&of_other.cluster_ip]);
            let ips = ips.filter_map(|ip| parse_ip(ip));
            // `clusterIP` is also the first of `clusterIPs`: its second claim fails.
            claimed.cluster_ips = ips.filter(|ip| self.cluster_ips.claim(*ip)).collect();
        }
        // Not from the state after an update, which may have set the node port.
        let is_before = matches!(state, OtherState::Before(_));
        if is_before && allocates_node_ports(own) && allocates_node_ports(of_other) {
            let is_unset = |name| own.ports.iter().any(|p| p.name == name && p.node_port == 0);
            for port in of_other
                .ports
                .iter()
                .filter(|port| is_unset(port.name.as_str()))
            {
                let number = port_number(port.node_port).filter(|one| self.node_ports.claim(*one));
                claimed
                    .node_ports
                    .extend(number.map(|number| (port.name.clone(), number)));
            }
        }
        if has_health_check(own) && has_health_check(of_other) && own.health_check_node_port == 0 {
            let number = port_number(of_other.health_check_node_port);
            claimed.health_check = number.filter(|number| self.node_ports.claim(*number));
        }
        if let (Some(pool), true) = (&mut self.load_balancers, lacks_ingress(service)) {
            let ingress = other.status.load_balancer.ingress.iter();
            let free = ingress.filter(|one| parse_ip(&one.ip).is_none_or(|ip| pool.claim(ip)));
            claimed.ingress = free.cloned().collect();
        }
        claimed
    }

    fn fill_in(&mut self, service: &mut Arc<ServiceObject>, claimed: &ClaimedValues) {
        if !service.spec.needs_cluster_ip() {
            return;
        }
        self.set_cluster_ips(service, claimed);
        if allocates_node_ports(&service.spec) {
            self.set_node_ports(service, claimed);
        }
        if has_health_check(&service.spec) && service.spec.health_check_node_port == 0 {
            let name = name(service);
            let number = claimed.health_check.or_else(|| {
                let number = self.node_ports.allocate(&format!("{name} health"));
                self.assume(AssumedValueKind::HealthCheckNodePort, &name, number)
            });
            if let Some(number) = number {
                Arc::make_mut(service).spec.health_check_node_port = number.into();
            }
        }
        if self.load_balancers.is_some() && lacks_ingress(service) {
            self.set_load_balancer_ips(service, claimed);
        }
    }

    /// Sets families and cluster IPs. Does not copy an object that has all of them.
    fn set_cluster_ips(&mut self, service: &mut Arc<ServiceObject>, claimed: &ClaimedValues) {
        let name = name(service);
        let spec = &service.spec;
        let mut ips = spec.cluster_ips.clone();
        if ips.is_empty() {
            ips.extend(Some(spec.cluster_ip.clone()).filter(|ip| !ip.is_empty()));
        }
        let families = families(spec, &ips);
        for text in families.iter().skip(ips.len()) {
            let known = IpFamily::ALL.into_iter().find(|one| one.as_str() == text);
            let mut claimed = claimed.cluster_ips.iter().copied();
            let ip = claimed.find(|ip| Some(IpFamily::of(*ip)) == known);
            let ip = ip.or_else(|| {
                let ip = known.and_then(|family| self.cluster_ips.allocate(&name, family));
                self.assume(AssumedValueKind::ClusterIp, &name, ip)
            });
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

    fn set_node_ports(&mut self, service: &mut Arc<ServiceObject>, claimed: &ClaimedValues) {
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
                let number = claimed.node_ports.get(&port.name).copied();
                let number = number.or_else(|| {
                    let number = self.node_ports.allocate(&key);
                    self.assume(AssumedValueKind::NodePort, &key, number)
                });
                number.map(Into::into)
            });
            let spec = &mut Arc::make_mut(service).spec;
            if let (Some(port), Some(number)) = (spec.ports.get_mut(index), number) {
                port.node_port = number;
            }
        }
    }

    fn set_load_balancer_ips(&mut self, service: &mut Arc<ServiceObject>, claimed: &ClaimedValues) {
        let name = name(service);
        let mut ingress = claimed.ingress.clone();
        if ingress.is_empty() {
            let families = service.spec.ip_families.clone();
            let known = IpFamily::ALL.into_iter();
            for family in known.filter(|one| families.iter().any(|text| one.as_str() == text)) {
                let pool = self.load_balancers.as_mut();
                let ip = pool.and_then(|pool| pool.allocate(&name, family));
                let ip = self.assume(AssumedValueKind::LoadBalancerIp, &name, ip);
                ingress.extend(ip.map(|ip| Ingress {
                    ip: ip.to_string(),
                    ip_mode: None,
                }));
            }
        }
        Arc::make_mut(service).status.load_balancer.ingress = ingress;
    }

    /// Records an assumed value, or the problem that none is free. Not for claimed values: the
    /// other state has set them, or has recorded them as assumed.
    fn assume<T: ToString>(
        &mut self,
        kind: AssumedValueKind,
        subject: &str,
        value: Option<T>,
    ) -> Option<T> {
        let Some(value) = value else {
            let range = match kind {
                AssumedValueKind::ClusterIp => "cluster IP in the service CIDR".to_owned(),
                AssumedValueKind::LoadBalancerIp => "load balancer IP in the range".to_owned(),
                _ => format!("node port in the range {}", self.ranges.node_ports),
            };
            self.problems
                .push(format!("Service `{subject}`: no free {range}"));
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

/// Reports whether service ports without a node port get one.
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

/// Reports whether a controller would report load balancer IPs that the manifest lacks.
fn lacks_ingress(service: &ServiceObject) -> bool {
    service.spec.type_ == "LoadBalancer" && service.status.load_balancer.ingress.is_empty()
}

fn ingress_ips(service: &ServiceObject) -> impl Iterator<Item = IpAddr> {
    let ingress = service.status.load_balancer.ingress.iter();
    ingress.filter_map(|one| parse_ip(&one.ip))
}

fn port_number(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|number| *number != 0)
}
