//! Reduces a Service to its state in each family.
//!
//! Its addresses are read in [`service_address`](super::service_address), its ports in
//! [`service_port`](super::service_port).
//!
//! # Source
//!
//! Upstream: pkg/proxy/serviceport.go, `newBaseServicePortInfo` (v1.36)
//! Upstream: pkg/proxy/util/utils.go, `ShouldSkipService` (v1.36)

use std::net::IpAddr;
use std::time::Duration;

use super::diagnostic::{Diagnostic, Findings};
use super::interner::Interner;
use super::naming;
use super::object::{ServiceObject, ServiceSpec};
use super::service_address::{
    cluster_ip, drop_unguarded, external_ips, is_unreadable, load_balancer_ips, ranges_of,
    source_ranges,
};
use super::service_port;
use crate::model::{Kind, Service, ServiceName, ServicePort, TrafficPolicy};
use crate::net::{IpFamily, IpNet, PerFamily, Port};

/// Returns the state of a Service in each family; `None` where it has no rules.
pub fn service(
    object: &ServiceObject,
    interner: &mut Interner,
) -> (ServiceName, PerFamily<Option<Service>>, Vec<Diagnostic>) {
    let mut findings = Findings::new(Kind::Service, &object.metadata);
    let name = ServiceName::new(&object.metadata.namespace, &object.metadata.name);
    let services = if is_proxied(&object.spec) && has_sound_names(object, &mut findings) {
        let written = ParsedService::read(object, interner, &mut findings);
        PerFamily::from_fn(|family| {
            cluster_ip(&object.spec, family, &mut findings).map(|ip| written.seen_from(ip))
        })
    } else {
        PerFamily::default()
    };
    (name, services, findings.into_list())
}

/// Reports whether a Service has rules: it is neither headless nor of type `ExternalName`.
fn is_proxied(spec: &ServiceSpec) -> bool {
    !matches!(spec.cluster_ip.as_str(), "" | "None") && spec.type_ != "ExternalName"
}

fn has_sound_names(object: &ServiceObject, findings: &mut Findings<'_>) -> bool {
    naming::is_sound(&object.metadata.namespace, "metadata.namespace", findings)
        && naming::is_sound(&object.metadata.name, "metadata.name", findings)
        && object.spec.ports.iter().enumerate().all(|(index, port)| {
            port.name.is_empty()
                || naming::is_sound(&port.name, &format!("spec.ports[{index}].name"), findings)
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
    fn read(object: &ServiceObject, interner: &mut Interner, findings: &mut Findings<'_>) -> Self {
        let spec = &object.spec;
        let external_policy = external_policy(spec);
        let external_ips = external_ips(spec, findings);
        let source_ranges = source_ranges(spec, findings);
        let mut load_balancer_ips = load_balancer_ips(object, findings);
        if spec
            .load_balancer_source_ranges
            .iter()
            .any(|range| is_unreadable(range))
        {
            drop_unguarded(&mut load_balancer_ips, &source_ranges, findings);
        }
        let addresses_and_ranges =
            1 + external_ips.len() + load_balancer_ips.len() + source_ranges.len();
        Self {
            external_ips,
            load_balancer_ips,
            source_ranges,
            internal_policy: policy(spec.internal_traffic_policy.as_deref().unwrap_or_default()),
            external_policy,
            affinity: affinity(spec, findings),
            health_check_node_port: health_check_node_port(spec, external_policy, findings),
            ports: service_port::ports(&spec.ports, addresses_and_ranges, interner, findings),
        }
    }

    /// Returns the Service in the family of its cluster IP.
    fn seen_from(&self, cluster_ip: IpAddr) -> Service {
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

fn policy(text: &str) -> TrafficPolicy {
    match text {
        "Local" => TrafficPolicy::Local,
        _ => TrafficPolicy::Cluster,
    }
}

/// Returns the external policy, which only Services with a NodePort, a load balancer or external
/// IPs have.
///
/// Upstream: pkg/api/v1/service/util.go, `ExternalPolicyLocal`, `ExternallyAccessible` (v1.36)
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
fn affinity(spec: &ServiceSpec, findings: &mut Findings<'_>) -> Option<Duration> {
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
        findings.note(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            format!("{seconds} is not from 1 to {LONGEST}; {DEFAULT} is used"),
        );
    }
    Some(Duration::from_secs(valid.unwrap_or(DEFAULT)))
}

fn health_check_node_port(
    spec: &ServiceSpec,
    external_policy: TrafficPolicy,
    findings: &mut Findings<'_>,
) -> Option<Port> {
    if spec.type_ != "LoadBalancer" || external_policy != TrafficPolicy::Local {
        return None;
    }
    let number = spec.health_check_node_port;
    let port = service_port::number(number);
    if port.is_none() {
        findings.note(
            "spec.healthCheckNodePort",
            format!("{number} is not a valid port; load balancers cannot ask for local endpoints"),
        );
    }
    port
}
