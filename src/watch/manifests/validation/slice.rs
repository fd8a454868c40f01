//! Validates EndpointSlices by the checks of the API server that matter to rules.
//!
//! # Source
//!
//! Upstream: pkg/apis/discovery/validation/validation.go, `ValidateEndpointSlice` (v1.37)

use std::collections::HashSet;

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::problem::Problems;
use crate::net::{IpFamily, parse_ip};

/// Adds the problems of an EndpointSlice.
pub(crate) fn validate(slice: &EndpointSlice, problems: &mut Problems) {
    if slice
        .metadata
        .name
        .as_deref()
        .unwrap_or_default()
        .is_empty()
    {
        problems.add_required("metadata.name");
    }
    match slice.address_type.as_str() {
        "" => problems.add_required("addressType"),
        type_ => problems.check_supported("addressType", type_, &["FQDN", "IPv4", "IPv6"]),
    }
    check_endpoints(slice, problems);
    check_ports(slice, problems);
}

fn check_endpoints(slice: &EndpointSlice, problems: &mut Problems) {
    let type_ = slice.address_type.as_str();
    let family = IpFamily::ALL.into_iter().find(|one| one.as_str() == type_);
    for (index, endpoint) in slice.endpoints.iter().flatten().enumerate() {
        let at = format!("endpoints[{index}].addresses");
        if endpoint.addresses.is_empty() {
            problems.add_required(&at);
        }
        let Some(family) = family else { continue };
        for (index, address) in endpoint.addresses.iter().enumerate() {
            let ip = parse_ip(address);
            if ip.is_none_or(|ip| IpFamily::of(ip) != family) {
                let detail = format!("must be a valid {family} address");
                problems.add_invalid(&format!("{at}[{index}]"), address, &detail);
            }
        }
    }
}

fn check_ports(slice: &EndpointSlice, problems: &mut Problems) {
    let mut names = HashSet::new();
    for (index, port) in slice.ports.iter().flatten().enumerate() {
        let at = format!("ports[{index}]");
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() {
            problems.check_label(&format!("{at}.name"), name);
        }
        if !names.insert(name) {
            problems.add_duplicate(&format!("{at}.name"), format_args!("{name:?}"));
        }
        if let Some(protocol) = port.protocol.as_deref().filter(|text| !text.is_empty()) {
            let supported = ["SCTP", "TCP", "UDP"];
            problems.check_supported(&format!("{at}.protocol"), protocol, &supported);
        }
        if let Some(number) = port.port {
            problems.check_port(&format!("{at}.port"), number);
        }
    }
}
