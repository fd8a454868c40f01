//! Validates Services as the API server does before it stores them.
//!
//! Fields that the API server would default or allocate may be absent.
//!
//! # Source
//!
//! Upstream: pkg/apis/core/validation/validation.go, `validateService`, `validateServicePort`,
//! `ValidateServiceClusterIPsRelatedFields` (v1.37)
//!
//! Upstream: pkg/registry/core/service/portallocator/allocator.go, `ErrNotInRange` (v1.37)
//!
//! Differs from upstream: qualified names and selectors are not checked, because no rule depends
//! on them.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::problem::Problems;
use crate::ingest;
use crate::net::{parse_cidr, parse_ip};
use crate::watch::manifests::pools::NodePortRange;

/// Default type of a Service.
const CLUSTER_IP: &str = "ClusterIP";

/// Detail of an error about a field that only load balancers have.
const ONLY_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Adds the problems of a Service, whose node ports have to be in the range.
pub(crate) fn validate(service: &Service, node_ports: NodePortRange, problems: &mut Problems) {
    check_metadata_name(service.metadata.name.as_deref(), problems);
    let default = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&default);
    check_type(spec, problems);
    check_ports(spec, problems);
    check_affinity(spec, problems);
    check_cluster_ips(spec, problems);
    check_external_ips(spec, problems);
    check_load_balancer(service, spec, problems);
    check_policies(spec, problems);
    check_node_ports(spec, node_ports, problems);
}

/// Adds a problem for each node port outside of the range. 0 means that none is set; numbers that
/// are not valid ports are left to [`Problems::check_port`].
fn check_node_ports(spec: &ServiceSpec, range: NodePortRange, problems: &mut Problems) {
    let is_outside = |number: i32| {
        let port = u16::try_from(number).ok().filter(|port| *port != 0);
        port.is_some_and(|port| !range.contains(port))
    };
    let detail = format!(
        "provided port is not in the valid range. The range of valid ports is {range} \
         (--manifests-node-port-range)"
    );
    if matches!(type_of(spec), "LoadBalancer" | "NodePort") {
        for (index, port) in spec.ports.iter().flatten().enumerate() {
            let port = port.node_port.unwrap_or_default();
            if is_outside(port) {
                problems.add_invalid(&format!("spec.ports[{index}].nodePort"), port, &detail);
            }
        }
    }
    let port = spec.health_check_node_port.unwrap_or_default();
    let is_local = spec.external_traffic_policy.as_deref() == Some("Local");
    if type_of(spec) == "LoadBalancer" && is_local && is_outside(port) {
        problems.add_invalid("spec.healthCheckNodePort", port, &detail);
    }
}

fn check_metadata_name(name: Option<&str>, problems: &mut Problems) {
    match name {
        Some(name) if !name.is_empty() => problems.check_label("metadata.name", name),
        _ => problems.add_required("metadata.name"),
    }
}

fn type_of(spec: &ServiceSpec) -> &str {
    let named = spec.type_.as_deref().filter(|type_| !type_.is_empty());
    named.unwrap_or(CLUSTER_IP)
}

fn is_headless(spec: &ServiceSpec) -> bool {
    let single = spec.cluster_ip.as_deref().unwrap_or_default();
    ingest::is_headless(single, spec.cluster_ips.as_deref().unwrap_or_default())
}

fn check_type(spec: &ServiceSpec, problems: &mut Problems) {
    let type_ = type_of(spec);
    problems.check_supported(
        "spec.type",
        type_,
        &[CLUSTER_IP, "ExternalName", "LoadBalancer", "NodePort"],
    );
    if matches!(type_, "LoadBalancer" | "NodePort") && is_headless(spec) {
        let detail = format!("may not be set to 'None' for {type_} services");
        problems.add_invalid("spec.clusterIP", "None", &detail);
    }
    let has_external_name = spec
        .external_name
        .as_ref()
        .is_some_and(|name| !name.is_empty());
    if type_ == "ExternalName" && !has_external_name {
        problems.add_required("spec.externalName");
    }
}

fn check_ports(spec: &ServiceSpec, problems: &mut Problems) {
    let ports = spec.ports.as_deref().unwrap_or_default();
    if ports.is_empty() && !is_headless(spec) && type_of(spec) != "ExternalName" {
        problems.add_required("spec.ports");
    }
    let (mut names, mut numbers, mut node_ports) = (HashSet::new(), HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        let name = port.name.as_deref().unwrap_or_default();
        match name {
            "" if ports.len() > 1 => problems.add_required(&format!("{at}.name")),
            "" => {}
            name => problems.check_label(&format!("{at}.name"), name),
        }
        if !name.is_empty() && !names.insert(name) {
            problems.add_duplicate(&format!("{at}.name"), format_args!("{name:?}"));
        }
        check_service_port(&at, port, problems);
        let protocol = protocol(port.protocol.as_deref());
        if !numbers.insert((protocol, port.port)) {
            problems.add_duplicate(&at, format_args!("{protocol} port {}", port.port));
        }
        let node_port = port.node_port.unwrap_or_default();
        if node_port == 0 {
            continue;
        }
        let at = format!("{at}.nodePort");
        if type_of(spec) == CLUSTER_IP {
            problems.add_forbidden(&at, "may not be used when `type` is 'ClusterIP'");
        }
        problems.check_port(&at, node_port);
        if !node_ports.insert((protocol, node_port)) {
            problems.add_duplicate(&at, node_port);
        }
    }
}

fn protocol(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("TCP")
}

fn check_service_port(at: &str, port: &ServicePort, problems: &mut Problems) {
    problems.check_port(&format!("{at}.port"), port.port);
    problems.check_supported(
        &format!("{at}.protocol"),
        protocol(port.protocol.as_deref()),
        &["SCTP", "TCP", "UDP"],
    );
    let at = format!("{at}.targetPort");
    match &port.target_port {
        // The API server defaults both.
        None | Some(IntOrString::Int(0)) => {}
        Some(IntOrString::Int(number)) => problems.check_port(&at, *number),
        Some(IntOrString::String(name)) if name.is_empty() => {}
        Some(IntOrString::String(name)) => check_port_name(&at, name, problems),
    }
}

/// Adds a problem unless `name` is an IANA service name, as the names of container ports are.
fn check_port_name(at: &str, name: &str, problems: &mut Problems) {
    const MAX_BYTES: usize = 15;

    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_valid = name.len() <= MAX_BYTES
        && name.bytes().all(is_inner)
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if !is_valid {
        let detail = "must be a port, or a name of at most 15 lower case letters, digits and `-`, \
                      at least one of them a letter";
        problems.add_invalid(at, name, detail);
    }
}

fn check_affinity(spec: &ServiceSpec, problems: &mut Problems) {
    /// Maximum of the API: a day.
    const MAX_SECONDS: i32 = 86_400;
    const CONFIG: &str = "spec.sessionAffinityConfig";

    let affinity = spec.session_affinity.as_deref().unwrap_or_default();
    let affinity = if affinity.is_empty() {
        "None"
    } else {
        affinity
    };
    problems.check_supported("spec.sessionAffinity", affinity, &["ClientIP", "None"]);
    // The API server drops the configuration of another affinity.
    let config = spec.session_affinity_config.as_ref();
    let seconds = config
        .filter(|_| affinity == "ClientIP")
        .and_then(|config| config.client_ip.as_ref())
        .and_then(|client_ip| client_ip.timeout_seconds);
    if let Some(seconds) = seconds.filter(|seconds| !(1..=MAX_SECONDS).contains(seconds)) {
        // The text of an API server, although it accepts the maximum.
        let detail = format!("must be greater than 0 and less than {MAX_SECONDS}");
        problems.add_invalid(
            &format!("{CONFIG}.clientIP.timeoutSeconds"),
            seconds,
            &detail,
        );
    }
}

fn check_cluster_ips(spec: &ServiceSpec, problems: &mut Problems) {
    for (index, family) in spec.ip_families.iter().flatten().enumerate() {
        let at = format!("spec.ipFamilies[{index}]");
        problems.check_supported(&at, family, &["IPv4", "IPv6"]);
    }
    if let Some(policy) = &spec.ip_family_policy {
        let supported = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        problems.check_supported("spec.ipFamilyPolicy", policy, &supported);
    }
    if type_of(spec) == "ExternalName" {
        return;
    }
    let listed = spec.cluster_ips.as_deref().unwrap_or_default();
    let single = spec.cluster_ip.as_deref().unwrap_or_default();
    if !single.is_empty() && single != "None" {
        check_ip("spec.clusterIP", single, problems);
    }
    let first = listed.first().map_or("", String::as_str);
    if !listed.is_empty() && first != single {
        // The API server derives `clusterIPs` from `clusterIP`, and not the other way around.
        let detail = if single.is_empty() {
            "must be empty when `clusterIP` is not specified"
        } else {
            "first value must match `clusterIP`"
        };
        problems.add_invalid("spec.clusterIPs", listed, detail);
    }
    for (index, ip) in listed.iter().enumerate().filter(|(_, ip)| *ip != single) {
        let is_headless = index == 0 && ip == "None" && listed.len() == 1;
        if !is_headless {
            check_ip(&format!("spec.clusterIPs[{index}]"), ip, problems);
        }
    }
    if listed.len() > 2 {
        problems.add_invalid("spec.clusterIPs", listed, "may only hold up to 2 values");
    }
}

fn check_ip(at: &str, text: &str, problems: &mut Problems) {
    if parse_ip(text).is_none() {
        problems.add_invalid(at, text, "must be a valid IP address");
    }
}

fn check_external_ips(spec: &ServiceSpec, problems: &mut Problems) {
    for (index, ip) in spec.external_ips.iter().flatten().enumerate() {
        check_ip(&format!("spec.externalIPs[{index}]"), ip, problems);
    }
}

fn check_load_balancer(service: &Service, spec: &ServiceSpec, problems: &mut Problems) {
    const RANGES: &str = "spec.loadBalancerSourceRanges";

    let is_load_balancer = type_of(spec) == "LoadBalancer";
    let ranges = spec
        .load_balancer_source_ranges
        .as_deref()
        .unwrap_or_default();
    if !is_load_balancer && !ranges.is_empty() {
        problems.add_forbidden(RANGES, ONLY_LOAD_BALANCERS);
    }
    for (index, range) in ranges.iter().enumerate() {
        // The API server accepts spaces around a range.
        if parse_cidr(range.trim()).is_none() {
            let at = format!("{RANGES}[{index}]");
            problems.add_invalid(&at, range, "must be a valid CIDR value");
        }
    }
    if !is_load_balancer && spec.allocate_load_balancer_node_ports.is_some() {
        problems.add_forbidden("spec.allocateLoadBalancerNodePorts", ONLY_LOAD_BALANCERS);
    }
    if !is_load_balancer && spec.load_balancer_class.is_some() {
        problems.add_forbidden("spec.loadBalancerClass", ONLY_LOAD_BALANCERS);
    }
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref());
    for (index, ingress) in ingress.unwrap_or_default().iter().enumerate() {
        let at = format!("status.loadBalancer.ingress[{index}]");
        if let Some(ip) = ingress.ip.as_deref().filter(|ip| !ip.is_empty()) {
            check_ip(&format!("{at}.ip"), ip, problems);
        }
        if let Some(mode) = &ingress.ip_mode {
            problems.check_supported(&format!("{at}.ipMode"), mode, &["Proxy", "VIP"]);
        }
    }
}

fn check_policies(spec: &ServiceSpec, problems: &mut Problems) {
    const EXTERNAL: &str = "spec.externalTrafficPolicy";
    const POLICIES: [&str; 2] = ["Cluster", "Local"];

    let external = spec.external_traffic_policy.as_deref().unwrap_or_default();
    let has_external_ips = spec.external_ips.iter().flatten().next().is_some();
    let is_external = match type_of(spec) {
        "LoadBalancer" | "NodePort" => true,
        type_ => type_ == CLUSTER_IP && has_external_ips,
    };
    if !external.is_empty() {
        problems.check_supported(EXTERNAL, external, &POLICIES);
        if !is_external {
            let detail = "may only be set for externally-accessible services";
            problems.add_invalid(EXTERNAL, external, detail);
        }
    }
    if let Some(internal) = &spec.internal_traffic_policy {
        problems.check_supported("spec.internalTrafficPolicy", internal, &POLICIES);
    }
    if let Some(distribution) = &spec.traffic_distribution {
        let supported = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        problems.check_supported("spec.trafficDistribution", distribution, &supported);
    }
    let health_check_port = spec.health_check_node_port.unwrap_or_default();
    if health_check_port != 0 {
        problems.check_port("spec.healthCheckNodePort", health_check_port);
        if type_of(spec) != "LoadBalancer" || external != "Local" {
            let detail = "may only be set when `type` is 'LoadBalancer' and \
                          `externalTrafficPolicy` is 'Local'";
            problems.add_invalid("spec.healthCheckNodePort", health_check_port, detail);
        }
    }
}
