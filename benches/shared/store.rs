//! Services put straight into etcd, beside the API server.
//!
//! Apart from the [`load`](super::load), and only for Services: the API server counts all cluster
//! IPs that are taken for each one that it gives out, so that 50,000 Services take it three
//! quarters of an hour. What is written here reads as what it would have written, managed fields
//! and the IP's own object included.

use std::net::Ipv4Addr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::kube::ControlPlane;

/// First cluster IP of a Service. The API server's own choice is the whole /12 around it.
const FIRST_CLUSTER_IP: u32 = u32::from_be_bytes([10, 97, 0, 0]);
/// In one transaction: two objects each, of the 128 that etcd takes.
const AT_ONCE: usize = 50;

/// Cluster IP number `number` of those that follow each other without a gap.
pub fn cluster_ip(number: usize) -> Ipv4Addr {
    Ipv4Addr::from(FIRST_CLUSTER_IP + u32::try_from(number).unwrap())
}

/// A client of the control plane's etcd.
pub struct Store {
    etcd: Api,
}

impl Store {
    /// Connects.
    pub fn of(control: &ControlPlane) -> Self {
        let kubeconfig = "apiVersion: v1
kind: Config
clusters: [{name: etcd, cluster: {server: 'http://127.0.0.1:2379'}}]
contexts: [{name: etcd, context: {cluster: etcd, user: ''}}]
current-context: etcd
";
        let etcd = Api::new(control.netns().path(), kubeconfig.to_owned());
        Self { etcd }
    }

    /// Creates Services with these names and cluster IPs, of one port each.
    pub fn create_services(&self, services: &[(String, Ipv4Addr)]) {
        let requests = services.chunks(AT_ONCE).map(|services| {
            let puts = services.iter().flat_map(|(name, ip)| {
                [
                    put(
                        &format!("services/specs/default/{name}"),
                        &service(name, *ip),
                    ),
                    put(&format!("ipaddresses/{ip}"), &ip_address(name, *ip)),
                ]
            });
            let body = json!({ "success": puts.collect::<Vec<_>>() });
            let body = serde_json::to_vec(&body).unwrap();
            Request::post("/v3/kv/txn").body(body).unwrap()
        });
        for answer in self.etcd.send(requests.collect()) {
            answer.unwrap_or_else(|error| panic!("etcd: {error}"));
        }
    }
}

fn put(key: &str, object: &Value) -> Value {
    let value = serde_json::to_vec(object).unwrap();
    json!({"requestPut": {
        "key": BASE64_STANDARD.encode(format!("/registry/{key}")),
        "value": BASE64_STANDARD.encode(value),
    }})
}

fn service(name: &str, ip: Ipv4Addr) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": name, "namespace": "default", "labels": {"app": name},
            "uid": uid(0x8000, ip), "creationTimestamp": CREATED,
            "managedFields": [managed_fields()],
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "selector": {"app": name},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
        },
        "status": {"loadBalancer": {}},
    })
}

/// Fields that no proxy reads, and a third of the bytes of an object.
fn managed_fields() -> Value {
    let ports = json!({
        ".": {},
        "k:{\"port\":80,\"protocol\":\"TCP\"}": {
            ".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {},
        },
    });
    json!({
        "manager": "kubectl-client-side-apply", "operation": "Update",
        "apiVersion": "v1", "time": CREATED, "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:internalTrafficPolicy": {}, "f:ports": ports, "f:selector": {},
                "f:sessionAffinity": {}, "f:type": {},
            },
        },
    })
}

/// Without it the API server finds the IP unallocated, and repairs that.
fn ip_address(service: &str, ip: Ipv4Addr) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": ip, "uid": uid(0x8001, ip), "creationTimestamp": CREATED,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "group": "", "resource": "services", "namespace": "default", "name": service,
        }},
    })
}

const CREATED: &str = "2026-01-01T00:00:00Z";

/// As long as any, and each its own: an IP is unique, and so is who has it.
fn uid(kind: u16, ip: Ipv4Addr) -> String {
    format!("7c5e0a1e-0000-4000-{kind:04x}-{:012x}", u32::from(ip))
}
