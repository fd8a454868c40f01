//! A Service object, reduced to what each family has to do about it.
//!
//! Apart from its ports ([`service_port`](super::service_port)), whose numbers and names have
//! rules of their own.
//!
//! # Source
//!
//! Upstream: pkg/proxy/serviceport.go, `newBaseServicePortInfo` (v1.36)
//! Upstream: pkg/proxy/util/utils.go, `ShouldSkipService`, `GetClusterIPByFamily` (v1.36)

use std::net::IpAddr;
use std::time::Duration;

use super::diagnostic::{Diagnostic, Findings, quoted};
use super::interner::Interner;
use super::naming;
use super::object::{ServiceObject, ServiceSpec};
use super::service_port;
use crate::model::{Kind, Service, ServiceName, ServicePort, TrafficPolicy};
use crate::net::{IpFamily, IpNet, PerFamily, Port, is_special, parse_cidr, parse_ip};

/// What `object` means to each family; `None` where it has no rules.
pub fn service(
    object: &ServiceObject,
    interner: &mut Interner,
) -> (ServiceName, PerFamily<Option<Service>>, Vec<Diagnostic>) {
    let mut findings = Findings::new(Kind::Service, &object.metadata);
    let name = ServiceName::new(&object.metadata.namespace, &object.metadata.name);
    let services = if is_proxied(&object.spec) && has_sound_names(object, &mut findings) {
        let written = Written::read(object, interner, &mut findings);
        PerFamily::from_fn(|family| {
            cluster_ip(&object.spec, family, &mut findings).map(|ip| written.seen_from(ip))
        })
    } else {
        PerFamily::default()
    };
    (name, services, findings.into_list())
}

/// Neither headless nor an alias of a host name.
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

/// The cluster IP of `family`: by index of `ipFamilies`, or the only one there is.
///
/// Differs from upstream: an address that does not parse, or that is not of the family it is
/// listed for, means no rules in that family; upstream would write it into a rule, and the whole
/// restore would fail.
fn cluster_ip(spec: &ServiceSpec, family: IpFamily, findings: &mut Findings<'_>) -> Option<IpAddr> {
    if spec.ip_families.is_empty() {
        let text = &spec.cluster_ip;
        let ip = parse_ip(text);
        // Said for one family only: it is one field.
        if ip.is_none() && family == IpFamily::V4 {
            findings.note("spec.clusterIP", format!("{} is no address", quoted(text)));
        }
        return ip.filter(|&ip| IpFamily::of(ip) == family);
    }
    let mut listed = spec.ip_families.iter().zip(&spec.cluster_ips).enumerate();
    let (index, (_, text)) = listed
        .find(|(_, (listed, _))| *listed == family.as_str())
        .filter(|(_, (_, text))| !text.is_empty())?;
    let ip = parse_ip(text).filter(|&ip| IpFamily::of(ip) == family);
    if ip.is_none() {
        let problem = format!("{} is no {family} address", quoted(text));
        findings.note(format!("spec.clusterIPs[{index}]"), problem);
    }
    ip
}

/// What the object says, parsed, before it is split by family.
struct Written {
    external_ips: Vec<IpAddr>,
    load_balancer_ips: Vec<IpAddr>,
    source_ranges: Vec<IpNet>,
    internal_policy: TrafficPolicy,
    external_policy: TrafficPolicy,
    affinity: Option<Duration>,
    health_check_node_port: Option<Port>,
    ports: Box<[ServicePort]>,
}

impl Written {
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
        let entrances = 1 + external_ips.len() + load_balancer_ips.len() + source_ranges.len();
        Self {
            external_ips,
            load_balancer_ips,
            source_ranges,
            internal_policy: policy(spec.internal_traffic_policy.as_deref().unwrap_or_default()),
            external_policy,
            affinity: affinity(spec, findings),
            health_check_node_port: health_check_node_port(spec, external_policy, findings),
            ports: service_port::ports(&spec.ports, entrances, interner, findings),
        }
    }

    /// The Service of the family of its cluster IP.
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

/// A range that covers everything makes the others pointless. Only ranges of the family count, so
/// `0.0.0.0/0` does not open IPv6.
fn ranges_of(family: IpFamily, ranges: &[IpNet]) -> Box<[IpNet]> {
    let ranges: Vec<IpNet> = ranges
        .iter()
        .copied()
        .filter(|&range| IpFamily::of_cidr(range) == family)
        .collect();
    if ranges.iter().any(|range| range.prefix_len() == 0) {
        return Box::default();
    }
    ranges.into()
}

/// Differs from upstream: an address that the API would not accept, such as one of this node's
/// loopback, is skipped.
fn external_ips(spec: &ServiceSpec, findings: &mut Findings<'_>) -> Vec<IpAddr> {
    let mut ips = Vec::with_capacity(spec.external_ips.len());
    for (index, text) in spec.external_ips.iter().enumerate() {
        match parse_ip(text) {
            Some(ip) if is_special(ip) => findings.note(
                format!("spec.externalIPs[{index}]"),
                format!("{} is of no use to others; it is skipped", quoted(text)),
            ),
            Some(ip) => ips.push(ip),
            None if text.trim().is_empty() => {}
            None => findings.note(
                format!("spec.externalIPs[{index}]"),
                format!("{} is no address; it is skipped", quoted(text)),
            ),
        }
    }
    ips
}

/// Addresses that traffic arrives with. `ipMode: Proxy` means that the load balancer sends to node
/// ports instead. KEP: kep.k8s.io/1860
fn load_balancer_ips(object: &ServiceObject, findings: &mut Findings<'_>) -> Vec<IpAddr> {
    let mut ips = Vec::new();
    for (index, ingress) in object.status.load_balancer.ingress.iter().enumerate() {
        let text = &ingress.ip;
        if text.is_empty() || ingress.ip_mode.as_deref().is_some_and(|mode| mode != "VIP") {
            continue;
        }
        match parse_ip(text) {
            Some(ip) => ips.push(ip),
            None => findings.note(
                format!("status.loadBalancer.ingress[{index}].ip"),
                format!("{} is no address; it is skipped", quoted(text)),
            ),
        }
    }
    ips
}

fn source_ranges(spec: &ServiceSpec, findings: &mut Findings<'_>) -> Vec<IpNet> {
    let mut ranges = Vec::new();
    for (index, text) in spec.load_balancer_source_ranges.iter().enumerate() {
        match parse_cidr(text.trim()) {
            Some(range) => ranges.push(range),
            None if text.trim().is_empty() => {}
            None => findings.note(
                format!("spec.loadBalancerSourceRanges[{index}]"),
                format!("{} is no network; it is skipped", quoted(text)),
            ),
        }
    }
    ranges
}

fn is_unreadable(range: &str) -> bool {
    !range.trim().is_empty() && parse_cidr(range.trim()).is_none()
}

/// Addresses of a family whose only source ranges may be those that cannot be read.
///
/// Differs from upstream: a restriction that is not understood does not admit everybody.
fn drop_unguarded(ips: &mut Vec<IpAddr>, ranges: &[IpNet], findings: &mut Findings<'_>) {
    let is_guarded = |ip: &IpAddr| {
        let mut families = ranges.iter().map(|range| IpFamily::of_cidr(*range));
        families.any(|family| family == IpFamily::of(*ip))
    };
    let before = ips.len();
    ips.retain(is_guarded);
    if ips.len() < before {
        let problem =
            "what can be read restricts not all load balancer addresses; the others are skipped";
        findings.note("spec.loadBalancerSourceRanges", problem);
    }
}

fn policy(text: &str) -> TrafficPolicy {
    match text {
        "Local" => TrafficPolicy::Local,
        _ => TrafficPolicy::Cluster,
    }
}

/// Only Services that clients outside can know of have an external policy.
///
/// Upstream: pkg/api/v1/service/util.go, `ExternalPolicyLocal`, `ExternallyAccessible` (v1.36)
fn external_policy(spec: &ServiceSpec) -> TrafficPolicy {
    match spec.type_.as_str() {
        "LoadBalancer" | "NodePort" => policy(&spec.external_traffic_policy),
        "" | "ClusterIP" if !spec.external_ips.is_empty() => policy(&spec.external_traffic_policy),
        _ => TrafficPolicy::Cluster,
    }
}

/// Differs from upstream: a missing timeout is the API's default, where upstream ends the process,
/// and so is one outside of what the API accepts, where upstream's restore would fail.
fn affinity(spec: &ServiceSpec, findings: &mut Findings<'_>) -> Option<Duration> {
    /// In seconds: the API's default, three hours.
    const DEFAULT: u64 = 10_800;
    /// In seconds: the API's limit, a day.
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
            format!("{number} is no port; load balancers cannot ask for local endpoints"),
        );
    }
    port
}
