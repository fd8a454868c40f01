//! Sets values that Services lack, as an API server does: cluster IPs, node ports and health check
//! node ports. For commands, load balancer IPs as well, which a controller would report. Returns
//! the lines that report these values.
//!
//! # Source
//!
//! Upstream: pkg/registry/core/service/storage/alloc.go, `initIPFamilyFields`, `initNodePorts`,
//! `allocHealthCheckNodePort` (v1.37)

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::pools::{ManifestRanges, allocate_ip, allocate_port};
use crate::ingest::{Ingress, ServiceObject, ServicePortObject, ServiceSpec};
use crate::net::{IpFamily, IpNet, PerFamily, parse_ip};
use crate::text::first_of;

/// Assumes missing values of the Services for which `is_selected` is true. Values that any Service
/// sets, selected or not, are not free. Returns the assumed values, and the problems.
pub(super) fn fill_in(
    services: &mut [Arc<ServiceObject>],
    is_selected: impl Fn(&ServiceObject) -> bool,
    ranges: &ManifestRanges,
) -> (Vec<Assumption>, Vec<String>) {
    let mut allocator = ValueAllocator::new(services, ranges);
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
        let balancers = services.iter().map(|one| &one.status.load_balancer);
        let ingress = balancers.flat_map(|balancer| &balancer.ingress);
        Self {
            cluster_ips: cluster_ips.collect(),
            node_ports: ports.filter_map(|port| u16::try_from(port).ok()).collect(),
            load_balancer_ips: ingress.filter_map(|one| parse_ip(&one.ip)).collect(),
            assumptions: Vec::new(),
            problems: Vec::new(),
            ranges: *ranges,
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
        if let Some(ranges) = self.ranges.load_balancers
            && service.spec.type_ == "LoadBalancer"
            && !has_ingress
        {
            self.set_load_balancer_ips(service, ranges);
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
            let known = IpFamily::ALL.into_iter().find(|one| one.as_str() == text);
            let range = known.map(|family| *self.ranges.services.get(family));
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
        allocate_port(&mut self.node_ports, key, self.ranges.node_ports)
    }

    /// Sets the addresses that a controller would report.
    fn set_load_balancer_ips(
        &mut self,
        service: &mut Arc<ServiceObject>,
        ranges: PerFamily<IpNet>,
    ) {
        let name = name(service);
        let mut ingress = Vec::new();
        let families = service.spec.ip_families.clone();
        let known = IpFamily::ALL.into_iter();
        for family in known.filter(|one| families.iter().any(|text| one.as_str() == text)) {
            let range = *ranges.get(family);
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
    /// Kind of the value.
    pub kind: AssumedValueKind,
    /// Namespace and name of the Service; for a node port, then `:` and the service port.
    pub subject: String,
    /// Value as text.
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
    /// Number of a target port that is a name, which only Pods have.
    NamedPort,
}

/// Returns a line for each kind of value: the range of the values, and the first of them with their
/// Services.
pub(crate) fn assumption_lines(assumptions: &[Assumption], ranges: &ManifestRanges) -> Vec<String> {
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
        let shown = first_of(shown, kind.max_values());
        format!("{}: {shown}", kind.description(ranges))
    };
    by_kind.into_iter().map(line).collect()
}

impl AssumedValueKind {
    /// Returns the maximum values that a line names: many named ports, as each may be a mistake,
    /// and of other values a few examples of what to look for in the output.
    const fn max_values(self) -> usize {
        match self {
            Self::ClusterIp
            | Self::NodePort
            | Self::HealthCheckNodePort
            | Self::LoadBalancerIp
            | Self::Endpoints => 3,
            Self::NamedPort => 20,
        }
    }

    fn description(self, ranges: &ManifestRanges) -> String {
        match self {
            Self::ClusterIp => format!("cluster IPs from {}", pair(ranges.services)),
            Self::NodePort => format!("node ports from {}", ranges.node_ports),
            Self::HealthCheckNodePort => {
                format!("health check node ports from {}", ranges.node_ports)
            }
            Self::LoadBalancerIp => {
                let from = ranges.load_balancers.map(pair).unwrap_or_default();
                format!("load balancer IPs from {from}")
            }
            Self::Endpoints => {
                "two endpoints for each selector, the first one on this node".to_owned()
            }
            Self::NamedPort => "numbers of named ports, which only Pods have".to_owned(),
        }
    }
}

fn pair(ranges: PerFamily<IpNet>) -> String {
    format!("{},{}", ranges.v4, ranges.v6)
}
