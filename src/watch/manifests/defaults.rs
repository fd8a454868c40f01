//! Defaults of an API server: namespaces, names of ports and IP families.
//!
//! [`ingest`](crate::ingest) expects stored objects, in which all of this is set.
//!
//! # Source
//!
//! Upstream: pkg/registry/core/service/storage/alloc.go, `initIPFamilyFields` (v1.36)

use crate::ingest::{EndpointSliceObject, Metadata, ServiceSpec};
use crate::net::{IpFamily, parse_ip};

/// Sets the namespace `default` if the object has none.
pub(super) fn default_namespace(metadata: &mut Metadata) {
    if metadata.namespace.is_empty() {
        "default".clone_into(&mut metadata.namespace);
    }
}

/// Sets the empty name of ports without a name.
pub(super) fn default_port_names(object: &mut EndpointSliceObject) {
    for port in &mut object.ports {
        port.name.get_or_insert_default();
    }
}

/// Reports whether a Service has cluster IPs: it is neither headless nor of type `ExternalName`.
pub(super) fn has_cluster_ip(spec: &ServiceSpec) -> bool {
    let first = spec.cluster_ips.first().unwrap_or(&spec.cluster_ip);
    first != "None" && spec.type_ != "ExternalName"
}

/// Returns the requested families: explicit, implied by addresses, or IPv4; both if the policy is
/// dual-stack.
pub(super) fn families(spec: &ServiceSpec, ips: &[String]) -> Vec<String> {
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
