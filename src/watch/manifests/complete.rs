//! Completes Services as an API server does: cluster IPs, node ports and health check node ports.
//! For previews, load balancer IPs as well, which a controller would report.
//!
//! # Source
//!
//! Upstream: pkg/registry/core/service/storage/alloc.go, `initNodePorts`,
//! `allocHealthCheckNodePort`; storage.go, `patchAllocatedValues` (v1.36)

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::assumption::{AssumedValue, Assumption};
use super::defaults::{families, has_cluster_ip};
use super::pools::{IpPool, PortPool};
use super::ranges::ManifestRanges;
use crate::ingest::{Ingress, ServiceObject, ServicePortObject, ServiceSpec};
use crate::net::{IpFamily, parse_ip};

/// Another state of the same Services.
#[derive(Debug, Clone, Copy)]
pub(super) enum OtherState<'a> {
    /// There is none.
    Absent,
    /// Earlier one: an API server keeps its values where an update sets none.
    Before(&'a [Arc<ServiceObject>]),
    /// Later one: what an update cannot change is the same before.
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

/// Completes the Services that `is_selected` selects. The others keep what is set, and nothing of
/// it is allocated again. A value that is not set is that of the same Service in `other` if
/// possible. Returns what was allocated, and the problems.
pub(super) fn complete(
    services: &mut [Arc<ServiceObject>],
    is_selected: impl Fn(&ServiceObject) -> bool,
    ranges: &ManifestRanges,
    other: OtherState<'_>,
) -> (Vec<Assumption>, Vec<String>) {
    let mut completion = Completion::new(services, ranges);
    let of_other = other.services().iter();
    let of_other: BTreeMap<_, _> = of_other.map(|one| (name(one), &**one)).collect();
    let selected = || services.iter().filter(|one| is_selected(one));
    // Kept values take precedence over new ones, so all of them are claimed first.
    let kept: Vec<Kept> = selected()
        .map(|service| {
            let counterpart = of_other.get(&name(service)).copied();
            completion.keep(service, counterpart, other)
        })
        .collect();
    let selected = services.iter_mut().filter(|one| is_selected(one));
    for (service, kept) in selected.zip(kept) {
        completion.complete(service, &kept);
    }
    (completion.assumptions, completion.problems)
}

fn name(service: &ServiceObject) -> String {
    let metadata = &service.metadata;
    format!("{}/{}", metadata.namespace, metadata.name)
}

/// Values of the same Service in other manifests.
#[derive(Debug, Default)]
struct Kept {
    cluster_ips: Vec<IpAddr>,
    /// By name of the service port.
    node_ports: BTreeMap<String, u16>,
    health_check: Option<u16>,
    ingress: Vec<Ingress>,
}

struct Completion {
    cluster_ips: IpPool,
    node_ports: PortPool,
    /// `None`: load balancer IPs are not assumed.
    load_balancers: Option<IpPool>,
    assumptions: Vec<Assumption>,
    problems: Vec<String>,
    ranges: ManifestRanges,
}

impl Completion {
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
        let balanced: HashSet<IpAddr> = ingress.collect();
        Self {
            cluster_ips: IpPool::new(ranges.services, cluster_ips.collect()),
            node_ports: PortPool::new(ranges.node_ports, ports.filter_map(port_number).collect()),
            load_balancers: ranges
                .load_balancers
                .map(|ranges| IpPool::new(ranges, balanced)),
            assumptions: Vec::new(),
            problems: Vec::new(),
            ranges: *ranges,
        }
    }

    /// Claims what an update would keep: values that are not set, unless another Service has them.
    fn keep(
        &mut self,
        service: &ServiceObject,
        counterpart: Option<&ServiceObject>,
        state: OtherState<'_>,
    ) -> Kept {
        let mut kept = Kept::default();
        let Some(other) = counterpart else {
            return kept;
        };
        let (new, old) = (&service.spec, &other.spec);
        if new.cluster_ips.is_empty() && new.cluster_ip.is_empty() && has_cluster_ip(old) {
            let ips = old.cluster_ips.iter().chain([&old.cluster_ip]);
            let ips = ips.filter_map(|ip| parse_ip(ip));
            // The first of several addresses is in both fields.
            kept.cluster_ips = ips.filter(|ip| self.cluster_ips.claim(*ip)).collect();
        }
        // An update may set the node port of a port that had an allocated one.
        let is_before = matches!(state, OtherState::Before(_));
        if is_before && allocates_node_ports(new) && allocates_node_ports(old) {
            let is_unset = |name| new.ports.iter().any(|p| p.name == name && p.node_port == 0);
            for port in old.ports.iter().filter(|port| is_unset(port.name.as_str())) {
                let claimed = port_number(port.node_port).filter(|one| self.node_ports.claim(*one));
                kept.node_ports
                    .extend(claimed.map(|number| (port.name.clone(), number)));
            }
        }
        if has_health_check(new) && has_health_check(old) && new.health_check_node_port == 0 {
            let number = port_number(old.health_check_node_port);
            kept.health_check = number.filter(|number| self.node_ports.claim(*number));
        }
        if let (Some(pool), true) = (&mut self.load_balancers, lacks_ingress(service)) {
            let ingress = other.status.load_balancer.ingress.iter();
            let free = ingress.filter(|one| parse_ip(&one.ip).is_none_or(|ip| pool.claim(ip)));
            kept.ingress = free.cloned().collect();
        }
        kept
    }

    fn complete(&mut self, service: &mut Arc<ServiceObject>, kept: &Kept) {
        if !has_cluster_ip(&service.spec) {
            return;
        }
        self.set_cluster_ips(service, kept);
        if allocates_node_ports(&service.spec) {
            self.set_node_ports(service, kept);
        }
        if has_health_check(&service.spec) && service.spec.health_check_node_port == 0 {
            let name = name(service);
            let number = kept.health_check.or_else(|| {
                let number = self.node_ports.allocate(&format!("{name} health"));
                self.assume(AssumedValue::HealthCheckNodePort, &name, number)
            });
            if let Some(number) = number {
                Arc::make_mut(service).spec.health_check_node_port = number.into();
            }
        }
        if self.load_balancers.is_some() && lacks_ingress(service) {
            self.set_load_balancer_ips(service, kept);
        }
    }

    /// Sets families and cluster IPs. An object that has all of them is not copied.
    fn set_cluster_ips(&mut self, service: &mut Arc<ServiceObject>, kept: &Kept) {
        let name = name(service);
        let spec = &service.spec;
        let mut ips = spec.cluster_ips.clone();
        if ips.is_empty() {
            ips.extend(Some(spec.cluster_ip.clone()).filter(|ip| !ip.is_empty()));
        }
        let families = families(spec, &ips);
        for text in families.iter().skip(ips.len()) {
            let known = IpFamily::ALL.into_iter().find(|one| one.as_str() == text);
            let mut kept = kept.cluster_ips.iter().copied();
            let ip = kept.find(|ip| Some(IpFamily::of(*ip)) == known);
            let ip = ip.or_else(|| {
                let ip = known.and_then(|family| self.cluster_ips.allocate(&name, family));
                self.assume(AssumedValue::ClusterIp, &name, ip)
            });
            ips.push(ip.map(|ip| ip.to_string()).unwrap_or_default());
        }
        if ips != spec.cluster_ips || families != spec.ip_families || spec.cluster_ip.is_empty() {
            let spec = &mut Arc::make_mut(service).spec;
            // Without the first address, the Service has none.
            spec.cluster_ip = ips.first().cloned().unwrap_or_default();
            spec.cluster_ips = ips;
            spec.ip_families = families;
        }
    }

    fn set_node_ports(&mut self, service: &mut Arc<ServiceObject>, kept: &Kept) {
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
                let number = kept.node_ports.get(&port.name).copied();
                let number = number.or_else(|| {
                    let number = self.node_ports.allocate(&key);
                    self.assume(AssumedValue::NodePort, &key, number)
                });
                number.map(Into::into)
            });
            let spec = &mut Arc::make_mut(service).spec;
            if let (Some(port), Some(number)) = (spec.ports.get_mut(index), number) {
                port.node_port = number;
            }
        }
    }

    fn set_load_balancer_ips(&mut self, service: &mut Arc<ServiceObject>, kept: &Kept) {
        let name = name(service);
        let mut ingress = kept.ingress.clone();
        if ingress.is_empty() {
            let families = service.spec.ip_families.clone();
            let known = IpFamily::ALL.into_iter();
            for family in known.filter(|one| families.iter().any(|text| one.as_str() == text)) {
                let pool = self.load_balancers.as_mut();
                let ip = pool.and_then(|pool| pool.allocate(&name, family));
                let ip = self.assume(AssumedValue::LoadBalancerIp, &name, ip);
                ingress.extend(ip.map(|ip| Ingress {
                    ip: ip.to_string(),
                    ip_mode: None,
                }));
            }
        }
        Arc::make_mut(service).status.load_balancer.ingress = ingress;
    }

    /// Records an allocated value, or that there is none. A kept value is explicit or recorded in
    /// the other manifests.
    fn assume<T: ToString>(
        &mut self,
        kind: AssumedValue,
        service: &str,
        value: Option<T>,
    ) -> Option<T> {
        let Some(value) = value else {
            let range = match kind {
                AssumedValue::ClusterIp => "cluster IP in the service CIDR".to_owned(),
                AssumedValue::LoadBalancerIp => "load balancer IP in the range".to_owned(),
                _ => format!("node port in the range {}", self.ranges.node_ports),
            };
            self.problems
                .push(format!("Service `{service}`: no free {range}"));
            return None;
        };
        self.assumptions.push(Assumption {
            kind,
            service: service.to_owned(),
            value: value.to_string(),
        });
        Some(value)
    }
}

/// Reports whether service ports without a node port get one.
fn allocates_node_ports(spec: &ServiceSpec) -> bool {
    match spec.type_.as_str() {
        "NodePort" => true,
        "LoadBalancer" => spec.allocate_load_balancer_node_ports != Some(false),
        _ => false,
    }
}

/// Upstream: pkg/api/service/util.go, `NeedsHealthCheck` (v1.36)
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
