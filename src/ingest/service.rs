//! Reduces a Service to its state in each family.
//!
//! Its addresses and source ranges are read in [`field`](super::field). An invalid port is skipped,
//! not the object.
//!
//! # Source
//!
//! Upstream: pkg/proxy/serviceport.go, `newBaseServiceInfo` (v1.37)
//! Upstream: pkg/proxy/util/utils.go, `ShouldSkipService` (v1.37)

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::field::{
    self, Diagnostic, DiagnosticList, Interner, cluster_ip, drop_unguarded, external_ips,
    load_balancer_ips, ranges_of, source_ranges,
};
use super::object::{ServiceObject, ServicePortObject, ServiceSpec};
use crate::model::{
    Kind, MOST_RULES_WITHOUT_ENDPOINTS, Service, ServiceName, ServicePort, TrafficPolicy,
};
use crate::net::{IpFamily, IpNet, PerFamily, Port, Protocol};

/// Returns the state of a Service in each family; `None` where it has no rules.
pub fn service(
    object: &ServiceObject,
    interner: &mut Interner,
) -> (ServiceName, PerFamily<Option<Service>>, Vec<Diagnostic>) {
    let mut diagnostics = DiagnosticList::new(Kind::Service, &object.metadata);
    let name = ServiceName::new(&object.metadata.namespace, &object.metadata.name);
    let services = if is_proxied(&object.spec) && has_valid_names(object, &mut diagnostics) {
        let written = ParsedService::read(object, interner, &mut diagnostics);
        PerFamily::from_fn(|family| {
            cluster_ip(&object.spec, family, &mut diagnostics).map(|ip| written.in_family_of(ip))
        })
    } else {
        PerFamily::default()
    };
    (name, services, diagnostics.into_list())
}

/// Reports whether a Service has rules. One without a cluster IP was not completed.
fn is_proxied(spec: &ServiceSpec) -> bool {
    spec.needs_cluster_ip() && !spec.cluster_ip.is_empty()
}

fn has_valid_names(object: &ServiceObject, diagnostics: &mut DiagnosticList<'_>) -> bool {
    field::is_valid_name(
        &object.metadata.namespace,
        "metadata.namespace",
        diagnostics,
    ) && field::is_valid_name(&object.metadata.name, "metadata.name", diagnostics)
        && object.spec.ports.iter().enumerate().all(|(index, port)| {
            port.name.is_empty()
                || field::is_valid_name(
                    &port.name,
                    &format!("spec.ports[{index}].name"),
                    diagnostics,
                )
        })
}

/// Parsed object, before it is split by family.
struct ParsedService {
    external_ips: Vec<IpAddr>,
    load_balancer_ips: Vec<IpAddr>,
    source_ranges: Vec<IpNet>,
    internal_policy: TrafficPolicy,
    external_policy: TrafficPolicy,
    affinity: Option<Duration>,
    health_check_node_port: Option<Port>,
    ports: Box<[ServicePort]>,
}

impl ParsedService {
    fn read(
        object: &ServiceObject,
        interner: &mut Interner,
        diagnostics: &mut DiagnosticList<'_>,
    ) -> Self {
        let spec = &object.spec;
        let external_policy = external_policy(spec);
        let mut external_ips = external_ips(spec, diagnostics);
        let (source_ranges, has_invalid) = source_ranges(spec, diagnostics);
        let mut load_balancer_ips = load_balancer_ips(object, diagnostics);
        if has_invalid {
            drop_unguarded(&mut load_balancer_ips, &source_ranges, diagnostics);
        }
        let left = MAX_EXTERNAL_ADDRESSES.saturating_sub(load_balancer_ips.len());
        limit("spec.externalIPs", &mut external_ips, left, diagnostics);
        let most = MAX_EXTERNAL_ADDRESSES;
        let path = "status.loadBalancer.ingress";
        limit(path, &mut load_balancer_ips, most, diagnostics);
        let addresses_and_ranges =
            1 + external_ips.len() + load_balancer_ips.len() + source_ranges.len();
        Self {
            external_ips,
            load_balancer_ips,
            source_ranges,
            internal_policy: policy(spec.internal_traffic_policy.as_deref().unwrap_or_default()),
            external_policy,
            affinity: affinity(spec, diagnostics),
            health_check_node_port: health_check_node_port(spec, external_policy, diagnostics),
            ports: ports(&spec.ports, addresses_and_ranges, interner, diagnostics),
        }
    }

    /// Returns the Service in the family of its cluster IP.
    fn in_family_of(&self, cluster_ip: IpAddr) -> Service {
        let family = IpFamily::of(cluster_ip);
        let of_family = |ips: &[IpAddr]| {
            ips.iter()
                .copied()
                .filter(|&ip| IpFamily::of(ip) == family)
                .collect()
        };
        Service {
            cluster_ip,
            external_ips: of_family(&self.external_ips),
            load_balancer_ips: of_family(&self.load_balancer_ips),
            source_ranges: ranges_of(family, &self.source_ranges),
            internal_policy: self.internal_policy,
            external_policy: self.external_policy,
            affinity: self.affinity,
            health_check_node_port: self.health_check_node_port,
            ports: self.ports.clone(),
        }
    }
}

/// Maximum external IPs and load balancer addresses of a Service together. On nft a restore of
/// 60,000 takes seconds, during which all other changes wait.
///
/// Differs from upstream: kube-proxy has rules for all of them.
const MAX_EXTERNAL_ADDRESSES: usize = 1_000;

/// Drops the addresses of a field beyond the first `most`.
fn limit(field: &str, ips: &mut Vec<IpAddr>, most: usize, diagnostics: &mut DiagnosticList<'_>) {
    let count = ips.len();
    if count > most {
        ips.truncate(most);
        diagnostics.note(
            field,
            format!(
                "a Service can have {MAX_EXTERNAL_ADDRESSES} external addresses; of {count} here, \
                 those after the first {most} are skipped"
            ),
        );
    }
}

fn policy(text: &str) -> TrafficPolicy {
    match text {
        "Local" => TrafficPolicy::Local,
        _ => TrafficPolicy::Cluster,
    }
}

/// Returns the external policy, which only Services with a NodePort, a load balancer or external
/// IPs have.
///
/// Upstream: pkg/api/v1/service/util.go, `ExternalPolicyLocal`, `ExternallyAccessible` (v1.37)
fn external_policy(spec: &ServiceSpec) -> TrafficPolicy {
    match spec.type_.as_str() {
        "LoadBalancer" | "NodePort" => policy(&spec.external_traffic_policy),
        "" | "ClusterIP" if !spec.external_ips.is_empty() => policy(&spec.external_traffic_policy),
        _ => TrafficPolicy::Cluster,
    }
}

/// Returns the affinity timeout.
///
/// Differs from upstream: a timeout that is missing, or outside the range of the API, is the
/// default. kube-proxy panics on the former, and its restore fails on the latter.
fn affinity(spec: &ServiceSpec, diagnostics: &mut DiagnosticList<'_>) -> Option<Duration> {
    /// Default of the API in seconds: three hours.
    const DEFAULT: u64 = 10_800;
    /// Maximum of the API in seconds: a day.
    const LONGEST: u64 = 86_400;

    if spec.session_affinity != "ClientIP" {
        return None;
    }
    let config = spec.session_affinity_config.as_ref();
    let Some(seconds) = config
        .and_then(|config| config.client_ip.as_ref())
        .and_then(|client_ip| client_ip.timeout_seconds)
    else {
        return Some(Duration::from_secs(DEFAULT));
    };
    let valid = u64::try_from(seconds)
        .ok()
        .filter(|seconds| (1..=LONGEST).contains(seconds));
    if valid.is_none() {
        diagnostics.note(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            format!("{seconds} is not from 1 to {LONGEST}; {DEFAULT} is used"),
        );
    }
    Some(Duration::from_secs(valid.unwrap_or(DEFAULT)))
}

fn health_check_node_port(
    spec: &ServiceSpec,
    external_policy: TrafficPolicy,
    diagnostics: &mut DiagnosticList<'_>,
) -> Option<Port> {
    if spec.type_ != "LoadBalancer" || external_policy != TrafficPolicy::Local {
        return None;
    }
    let number = spec.health_check_node_port;
    let port = field::port_number(number);
    if port.is_none() {
        diagnostics.note(
            "spec.healthCheckNodePort",
            format!("{number} is not a valid port; load balancers cannot ask for local endpoints"),
        );
    }
    port
}

/// Maximum ports of a Service. Frontends refer to them by indexes of 16 bits.
const MAX_PORTS: usize = 1 << 16;

/// Returns the usable ports, sorted by name and protocol. Of two with the same name and protocol
/// the later one wins, as in upstream's map.
///
/// Differs from upstream: a port without a valid number or protocol is skipped; kube-proxy writes
/// a rule that makes the whole restore fail.
///
/// Each port has a few rules for each of the `addresses_and_ranges` of the object: addresses and
/// source ranges. Ports beyond [`MOST_RULES_WITHOUT_ENDPOINTS`] are skipped.
fn ports(
    objects: &[ServicePortObject],
    addresses_and_ranges: usize,
    interner: &mut Interner,
    diagnostics: &mut DiagnosticList<'_>,
) -> Box<[ServicePort]> {
    let by_rules = MOST_RULES_WITHOUT_ENDPOINTS / addresses_and_ranges.max(1);
    let most = by_rules.min(MAX_PORTS);
    let count = objects.len();
    if count > most {
        let problem = if by_rules < MAX_PORTS {
            format!(
                "{count} ports, each with {addresses_and_ranges} addresses and source ranges, are \
                 more than {MOST_RULES_WITHOUT_ENDPOINTS} rules; those after the first {most} are \
                 skipped"
            )
        } else {
            format!("{count} ports are too many; those after the first {most} are skipped")
        };
        diagnostics.note("spec.ports", problem);
    }
    let mut ports: BTreeMap<(Arc<str>, Protocol), ServicePort> = BTreeMap::new();
    for (index, object) in objects.iter().enumerate().take(most) {
        let Some(port) = port(index, object, interner, diagnostics) else {
            continue;
        };
        let key = (Arc::clone(&port.name), port.protocol);
        if ports.insert(key, port).is_some() {
            diagnostics.note(
                format!("spec.ports[{index}]"),
                "has the name and protocol of an earlier port, and replaces it",
            );
        }
    }
    ports.into_values().collect()
}

fn port(
    index: usize,
    object: &ServicePortObject,
    interner: &mut Interner,
    diagnostics: &mut DiagnosticList<'_>,
) -> Option<ServicePort> {
    let protocol = field::protocol(&object.protocol, || {
        (format!("spec.ports[{index}].protocol"), &mut *diagnostics)
    })?;
    let Some(port) = field::port_number(object.port) else {
        let problem = match object.port {
            0 => "is missing; the port is skipped".to_owned(),
            port => format!("{port} is not a valid port; the port is skipped"),
        };
        diagnostics.note(format!("spec.ports[{index}].port"), problem);
        return None;
    };
    let node_port = Some(object.node_port).filter(|&number| number != 0);
    if let Some(bad) = node_port.filter(|&node_port| field::port_number(node_port).is_none()) {
        let problem = format!("{bad} is not a valid port; the port has no node port");
        diagnostics.note(format!("spec.ports[{index}].nodePort"), problem);
    }
    Some(ServicePort {
        name: interner.intern(&object.name),
        protocol,
        port,
        node_port: node_port.and_then(field::port_number),
    })
}
