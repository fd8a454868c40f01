//! Short ways to write the Kubernetes objects the tests need.

use serde_json::{Value, json};

/// The node whose rules the tests look at.
pub const NODE: &str = "node1";

/// A Node with both families and a zone.
pub fn node(v4: &str, v6: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": {"topology.kubernetes.io/zone": "zone-a"}},
        "spec": {"podCIDR": "10.4.0.0/24", "podCIDRs": ["10.4.0.0/24", "fd00:10:4::/64"]},
        "status": {"addresses": [
            {"type": "InternalIP", "address": v4},
            {"type": "InternalIP", "address": v6},
        ]},
    })
}

/// A Namespace.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A Service in the default namespace. `spec` is laid over one TCP port 80 named `http`.
pub fn service(name: &str, spec: Value) -> Value {
    let mut whole = json!({
        "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
    });
    let (Value::Object(whole_fields), Value::Object(fields)) = (&mut whole, spec) else {
        panic!("a spec is an object");
    };
    whole_fields.extend(fields);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": whole,
    })
}

/// The EndpointSlice of a service for the family of its addresses, with ready endpoints on [`NODE`]
/// and the service's one port.
pub fn slice(service: &Value, addresses: &[&str]) -> Value {
    let name = service["metadata"]["name"].as_str().expect("a name");
    let port = &service["spec"]["ports"][0];
    let family = if addresses.iter().any(|address| address.contains(':')) {
        "IPv6"
    } else {
        "IPv4"
    };
    let endpoints: Vec<_> = addresses
        .iter()
        .map(|address| {
            json!({
                "addresses": [address],
                "nodeName": NODE,
                "conditions": {"ready": true, "serving": true, "terminating": false},
            })
        })
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{name}-{}", family.to_lowercase()),
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [{"name": port["name"], "protocol": port["protocol"], "port": port["targetPort"]}],
    })
}

/// Objects as the text of one manifest.
pub fn manifest(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}
