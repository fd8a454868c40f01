//! Finds changes of fields that an API server rejects, because they may not change once set.
//!
//! An API server keeps the cluster IP of a Service where an update sets none. One that is set for
//! the first time is rejected as well, unless it is the one that was allocated.
//!
//! # Source
//!
//! Upstream: pkg/apis/core/validation/validation.go, `validateUpgradeDowngradeClusterIPs`,
//! `validateUpgradeDowngradeIPFamilies`, `validateLoadBalancerClassField` (v1.37)
//!
//! Upstream: pkg/apis/discovery/validation/validation.go, `ValidateEndpointSliceUpdate` (v1.37)

use serde_json::Value;

use super::field_role::ObjectKind;

/// Reports whether an API server rejects the change of a field of an object.
pub(super) fn is_rejected(kind: ObjectKind, path: &str, before: &Value, after: &Value) -> bool {
    let have_type = |type_| type_of(before) == type_ && type_of(after) == type_;
    let is_alias = [before, after].map(type_of).contains(&"ExternalName");
    match (kind, path) {
        (ObjectKind::EndpointSlice, "addressType") => true,
        (ObjectKind::Service, "spec.loadBalancerClass") => have_type("LoadBalancer"),
        (ObjectKind::Service, "spec.clusterIP" | "spec.clusterIPs") if !is_alias => {
            let (old, new) = (cluster_ips(before), cluster_ips(after));
            differ(&old, &new) || old.is_empty() && !new.is_empty()
        }
        (ObjectKind::Service, "spec.ipFamilies") if !is_alias => {
            let is_headless = |value| cluster_ips(value).contains(&"None");
            let [old, new] = [before, after].map(|value| texts(value, "/spec/ipFamilies"));
            !is_headless(before) && !is_headless(after) && differ(&old, &new)
        }
        _ => false,
    }
}

/// Reports whether lists have different items at one place; either may be longer.
fn differ(before: &[&str], after: &[&str]) -> bool {
    before.iter().zip(after).any(|(old, new)| old != new)
}

fn type_of(service: &Value) -> &str {
    let type_ = service.pointer("/spec/type").and_then(Value::as_str);
    type_.filter(|text| !text.is_empty()).unwrap_or("ClusterIP")
}

/// Returns the cluster IPs of a Service; the first one may be in either field.
fn cluster_ips(service: &Value) -> Vec<&str> {
    let all = texts(service, "/spec/clusterIPs");
    if !all.is_empty() {
        return all;
    }
    let single = service.pointer("/spec/clusterIP").and_then(Value::as_str);
    single.filter(|ip| !ip.is_empty()).into_iter().collect()
}

fn texts<'a>(object: &'a Value, place: &str) -> Vec<&'a str> {
    let items = object.pointer(place).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
