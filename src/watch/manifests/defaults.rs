//! What an API server would have filled in before we saw an object.
//!
//! Apart because [`ingest`](crate::ingest) reads stored objects, where all of this is settled.
//!
//! # Source
//!
//! Upstream: pkg/registry/core/service/storage/alloc.go, `initIPFamilyFields`,
//! `allocClusterIPs` (v1.36)

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::cluster_ip::Allocator;
use crate::ingest::{EndpointSliceObject, Metadata, ServiceObject, ServiceSpec};
use crate::net::{IpFamily, parse_ip};

/// The namespace of namespaced objects that name none.
pub(super) fn namespace(metadata: &mut Metadata) {
    if metadata.namespace.is_empty() {
        "default".clone_into(&mut metadata.namespace);
    }
}

/// A port without a name has an empty one.
pub(super) fn slice_ports(object: &mut EndpointSliceObject) {
    for port in &mut object.ports {
        port.name.get_or_insert_default();
    }
}

/// The addresses that were written, which no other Service may get.
pub(super) fn written_ips<'a>(specs: impl Iterator<Item = &'a ServiceSpec>) -> HashSet<IpAddr> {
    specs
        .flat_map(|spec| spec.cluster_ips.iter().chain([&spec.cluster_ip]))
        .filter_map(|text| parse_ip(text))
        .collect()
}

/// Settles families and cluster IPs of a Service that is neither headless nor an alias. Objects
/// that say all of it are not copied. `false`: a range has no address left.
pub(super) fn cluster_ips(object: &mut Arc<ServiceObject>, allocator: &mut Allocator) -> bool {
    let spec = &object.spec;
    let mut ips = spec.cluster_ips.clone();
    if ips.is_empty() {
        ips.extend(Some(spec.cluster_ip.clone()).filter(|ip| !ip.is_empty()));
    }
    let is_headless = ips.first().is_some_and(|ip| ip == "None");
    if is_headless || spec.type_ == "ExternalName" {
        return true;
    }
    let families = families(spec, &ips);
    let name = format!("{}/{}", object.metadata.namespace, object.metadata.name);
    let mut is_complete = true;
    for family in families.iter().skip(ips.len()) {
        let known = IpFamily::ALL.into_iter().find(|one| one.as_str() == family);
        let ip = known.and_then(|family| allocator.allocate(&name, family));
        is_complete &= ip.is_some();
        ips.push(ip.map(|ip| ip.to_string()).unwrap_or_default());
    }
    if ips != spec.cluster_ips || families != spec.ip_families || spec.cluster_ip.is_empty() {
        let spec = &mut Arc::make_mut(object).spec;
        // A Service without the first address has none.
        spec.cluster_ip = ips.first().cloned().unwrap_or_default();
        spec.cluster_ips = ips;
        spec.ip_families = families;
    }
    is_complete
}

/// The families asked for: named, implied by addresses, or IPv4; two if the policy wants two.
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
