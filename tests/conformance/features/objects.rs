//! Short ways to write the objects of features.

use serde_json::{Value, json};

use super::NAMESPACE;
use crate::conformance::stage::Op;
use crate::support::objects::NODE;

/// The Service `web`, made or changed.
pub fn web(spec: Value) -> Op {
    apply(service("web", spec))
}

/// The IPv4 slice `web-1` of Service `web`, made or changed.
pub fn endpoints(endpoints: &[Value]) -> Op {
    apply(slice("web-1", "web", "IPv4", endpoints))
}

/// A second IPv4 slice of the Service, made or changed.
pub fn more_endpoints(endpoints: &[Value]) -> Op {
    apply(slice("web-2", "web", "IPv4", endpoints))
}

/// The Service is deleted.
pub fn no_web() -> Op {
    delete(service("web", json!({})))
}

pub fn apply(object: Value) -> Op {
    Op::Apply(object)
}

pub fn delete(object: Value) -> Op {
    Op::Delete(object)
}

/// A Service with one port, and `spec` laid over it.
pub fn service(name: &str, spec: Value) -> Value {
    let mut whole = json!({"ports": [{"name": "http", "port": 80}]});
    merge(&mut whole, spec);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {}},
        "spec": whole,
    })
}

/// A load balancer that has its address.
pub fn with_ingress(spec: Value) -> Op {
    balanced_at(&json!([{"ip": "203.0.113.9"}]), spec)
}

/// A load balancer with these entries of its status.
pub fn balanced_at(ingress: &Value, spec: Value) -> Op {
    let mut object = service("web", balanced(spec));
    object["status"] = json!({"loadBalancer": {"ingress": ingress}});
    apply(object)
}

/// The specification of a load balancer.
pub fn balanced(more: Value) -> Value {
    let mut spec = json!({"type": "LoadBalancer"});
    merge(&mut spec, more);
    spec
}

/// The specification with policy Local for traffic from inside.
pub fn local_inside(mut spec: Value) -> Value {
    spec["internalTrafficPolicy"] = "Local".into();
    spec
}

pub fn of_families(families: &[&str]) -> Value {
    let policy = if families.len() == 2 {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    json!({"ipFamilies": families, "ipFamilyPolicy": policy})
}

pub fn node_port(number: u16) -> Value {
    json!({"type": "NodePort", "ports": [{"name": "http", "port": 80, "nodePort": number}]})
}

pub fn slice(name: &str, service: &str, family: &str, endpoints: &[Value]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080}],
    })
}

pub fn with_ports(mut slice: Value, ports: Value) -> Value {
    slice["ports"] = ports;
    slice
}

pub fn labelled(mut object: Value, label: &str) -> Value {
    object["metadata"]["labels"][label] = "".into();
    object
}

/// An endpoint on this node.
pub fn ready(address: &str) -> Value {
    conditions_of(address, json!({"ready": true}))
}

/// A ready endpoint on another node.
pub fn remote(address: &str) -> Value {
    json!({"addresses": [address], "nodeName": "node2", "conditions": {"ready": true}})
}

pub fn conditions_of(address: &str, conditions: Value) -> Value {
    let mut endpoint = json!({"addresses": [address], "nodeName": NODE});
    endpoint["conditions"] = conditions;
    endpoint
}

pub fn merge(whole: &mut Value, over: Value) {
    let (Value::Object(whole), Value::Object(over)) = (whole, over) else {
        panic!("both are objects");
    };
    whole.extend(over);
}

/// The slice `web-1` with an endpoint on this node and one on another.
pub fn here_and_there() -> Value {
    slice(
        "web-1",
        "web",
        "IPv4",
        &[ready("10.4.1.1"), remote("10.4.2.1")],
    )
}

/// The same without the one on this node.
pub fn there() -> Value {
    slice("web-1", "web", "IPv4", &[remote("10.4.2.1")])
}
