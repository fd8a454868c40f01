//! Finds values that no rule can come from: unsupported words, ports, addresses and networks.
//!
//! Other rules of the API server, such as those about fields that exclude each other, are left to
//! `kubectl apply --dry-run=server`.
//!
//! # Source
//!
//! Upstream: pkg/apis/core/validation/validation.go, `validateService`, `validateServicePort`;
//! pkg/apis/discovery/validation/validation.go, `ValidateEndpointSlice` (v1.37)

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::problem::{Problems, is_helm_template};
use crate::net::{IpFamily, parse_cidr, parse_ip};

const POLICIES: [&str; 2] = ["Cluster", "Local"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Adds the problems of a Service.
pub(super) fn check_service(service: &Service, problems: &mut Problems) {
    check_name(service.metadata.name.as_deref(), problems);
    if let Some(spec) = &service.spec {
        check_words(spec, problems);
        for (index, port) in spec.ports.iter().flatten().enumerate() {
            check_service_port(&format!("spec.ports[{index}]"), port, problems);
        }
        let health_check = spec.health_check_node_port.unwrap_or_default();
        check_set_port("spec.healthCheckNodePort", health_check, problems);
        check_addresses(spec, problems);
    }
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref());
    for (index, ingress) in ingress.unwrap_or_default().iter().enumerate() {
        let at = format!("status.loadBalancer.ingress[{index}]");
        let ip = ingress.ip.as_deref().unwrap_or_default();
        check_ip(&format!("{at}.ip"), ip, problems);
        let mode = ingress.ip_mode.as_deref();
        problems.check_supported(&format!("{at}.ipMode"), mode, &["Proxy", "VIP"]);
    }
}

/// Adds a problem if an object has no name, by which rules and errors identify it.
fn check_name(name: Option<&str>, problems: &mut Problems) {
    match name.unwrap_or_default() {
        "" => problems.add("metadata.name", "Required value"),
        name => check_rendered("metadata.name", name, problems),
    }
}

/// Adds a problem if `text` is a Helm template that was not rendered.
fn check_rendered(at: &str, text: &str, problems: &mut Problems) {
    if is_helm_template(text) {
        problems.add_invalid(at, text, "must be rendered");
    }
}

fn check_words(spec: &ServiceSpec, problems: &mut Problems) {
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    let family_policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let words: [(&str, &Option<String>, &[&str]); 6] = [
        ("type", &spec.type_, &types),
        (
            "sessionAffinity",
            &spec.session_affinity,
            &["ClientIP", "None"],
        ),
        ("ipFamilyPolicy", &spec.ip_family_policy, &family_policies),
        (
            "externalTrafficPolicy",
            &spec.external_traffic_policy,
            &POLICIES,
        ),
        (
            "internalTrafficPolicy",
            &spec.internal_traffic_policy,
            &POLICIES,
        ),
        (
            "trafficDistribution",
            &spec.traffic_distribution,
            &distributions,
        ),
    ];
    for (field, word, supported) in words {
        problems.check_supported(&format!("spec.{field}"), word.as_deref(), supported);
    }
    for (index, family) in spec.ip_families.iter().flatten().enumerate() {
        let at = format!("spec.ipFamilies[{index}]");
        problems.check_supported(&at, Some(family), &["IPv4", "IPv6"]);
    }
}

fn check_service_port(at: &str, port: &ServicePort, problems: &mut Problems) {
    problems.check_port(&format!("{at}.port"), port.port);
    let protocol = port.protocol.as_deref();
    problems.check_supported(&format!("{at}.protocol"), protocol, &PROTOCOLS);
    let node_port = port.node_port.unwrap_or_default();
    check_set_port(&format!("{at}.nodePort"), node_port, problems);
    let at = format!("{at}.targetPort");
    match &port.target_port {
        None => {}
        Some(IntOrString::Int(number)) => check_set_port(&at, *number, problems),
        Some(IntOrString::String(name)) => check_rendered(&at, name, problems),
    }
}

/// Adds a problem unless `number` is a port, or 0, which stands for none.
fn check_set_port(at: &str, number: i32, problems: &mut Problems) {
    if number != 0 {
        problems.check_port(at, number);
    }
}

fn check_addresses(spec: &ServiceSpec, problems: &mut Problems) {
    let single = spec.cluster_ip.as_deref().unwrap_or_default();
    let is_headless = |ip: &str| ip == "None";
    if !is_headless(single) {
        check_ip("spec.clusterIP", single, problems);
    }
    let listed = spec.cluster_ips.iter().flatten().enumerate();
    // The first one repeats `clusterIP`.
    for (index, ip) in listed.filter(|(_, ip)| *ip != single && !is_headless(ip)) {
        check_ip(&format!("spec.clusterIPs[{index}]"), ip, problems);
    }
    for (index, ip) in spec.external_ips.iter().flatten().enumerate() {
        check_ip(&format!("spec.externalIPs[{index}]"), ip, problems);
    }
    let ranges = spec.load_balancer_source_ranges.iter().flatten();
    for (index, range) in ranges.enumerate() {
        // The API server accepts spaces around a range.
        if parse_cidr(range.trim()).is_none() {
            let at = format!("spec.loadBalancerSourceRanges[{index}]");
            problems.add_invalid(&at, range, "must be a valid CIDR value");
        }
    }
}

/// Adds a problem unless `text` is an IP address, or empty.
fn check_ip(at: &str, text: &str, problems: &mut Problems) {
    if !text.is_empty() && parse_ip(text).is_none() {
        problems.add_invalid(at, text, "must be a valid IP address");
    }
}

/// Adds the problems of an EndpointSlice.
pub(super) fn check_slice(slice: &EndpointSlice, problems: &mut Problems) {
    check_name(slice.metadata.name.as_deref(), problems);
    let type_ = slice.address_type.as_str();
    if type_.is_empty() {
        problems.add("addressType", "Required value");
    }
    problems.check_supported("addressType", Some(type_), &["FQDN", "IPv4", "IPv6"]);
    if let Some(family) = IpFamily::ALL.into_iter().find(|one| one.as_str() == type_) {
        check_endpoints(slice, family, problems);
    }
    for (index, port) in slice.ports.iter().flatten().enumerate() {
        let at = format!("ports[{index}]");
        let protocol = port.protocol.as_deref();
        problems.check_supported(&format!("{at}.protocol"), protocol, &PROTOCOLS);
        if let Some(number) = port.port {
            problems.check_port(&format!("{at}.port"), number);
        }
    }
}

fn check_endpoints(slice: &EndpointSlice, family: IpFamily, problems: &mut Problems) {
    for (number, endpoint) in slice.endpoints.iter().flatten().enumerate() {
        for (index, address) in endpoint.addresses.iter().enumerate() {
            if parse_ip(address).is_none_or(|ip| IpFamily::of(ip) != family) {
                let at = format!("endpoints[{number}].addresses[{index}]");
                let detail = format!("must be a valid {family} address");
                problems.add_invalid(&at, address, &detail);
            }
        }
    }
}
