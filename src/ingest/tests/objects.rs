//! Random objects of the API, as `k8s_openapi` has them: any optional field may be absent, and
//! most values are valid, so that most objects have rules.

use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ClientIPConfig, ContainerImage, LoadBalancerIngress, LoadBalancerStatus, Node, NodeAddress,
    NodeSpec, NodeStatus, ObjectReference, PortStatus, Service, ServicePort, ServiceSpec,
    ServiceStatus, SessionAffinityConfig, Taint,
};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, ObjectMeta, Time,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

/// Name of this node in half of the endpoints.
pub(super) const NODE: &str = "node-a";

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["", "[a-zA-Z0-9:./-]{1,12}", "\\PC{1,8}"]
}

/// One of the words mostly, or any text.
fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![7 => select(words).prop_map(str::to_owned), 1 => text()]
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,6}"
}

fn v4() -> impl Strategy<Value = String> {
    any::<[u8; 3]>().prop_map(|[a, b, c]| Ipv4Addr::new(10, a, b, c).to_string())
}

fn v6() -> impl Strategy<Value = String> {
    any::<u128>().prop_map(|bits| Ipv6Addr::from(bits >> 8 | 0xfd << 120).to_string())
}

fn ip() -> impl Strategy<Value = String> {
    prop_oneof![4 => v4(), 4 => v6(), 1 => text()]
}

fn cidr() -> impl Strategy<Value = String> {
    let v4 = (v4(), 0..=32_u8).prop_map(|(ip, length)| format!("{ip}/{length}"));
    let v6 = (v6(), 0..=128_u8).prop_map(|(ip, length)| format!("{ip}/{length}"));
    prop_oneof![v4, v6]
}

fn port() -> impl Strategy<Value = i32> {
    prop_oneof![7 => 1..=65_535, 1 => Just(0), 1 => any::<i32>()]
}

fn protocol() -> impl Strategy<Value = String> {
    word(&["TCP", "UDP", "SCTP"])
}

fn policy() -> impl Strategy<Value = String> {
    word(&["Local", "Cluster"])
}

/// Metadata with fields that a proxy skips.
fn metadata() -> impl Strategy<Value = ObjectMeta> {
    let map = |keys: &'static [&'static str]| of(btree_map(word(keys), word(&["a", "cart"]), 0..4));
    let labels = map(&["kubernetes.io/service-name", "topology.kubernetes.io/zone"]);
    let annotations = map(&["service.kubernetes.io/topology-mode"]);
    let trigger = of(word(&[
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.678901Z",
    ]));
    let version = of("[0-9]{1,9}");
    let times = (any::<bool>(), any::<bool>());
    (name(), name(), version, labels, annotations, trigger, times).prop_map(
        |(
            name,
            namespace,
            resource_version,
            labels,
            annotations,
            trigger,
            (is_old, is_leaving),
        )| {
            let time = Timestamp::new(1_767_323_045, 0).map(Time).ok();
            let managed = ManagedFieldsEntry {
                manager: Some("kubectl".to_owned()),
                fields_v1: Some(FieldsV1(json!({"f:spec": {"f:clusterIP": {}}}))),
                time: time.clone(),
                ..ManagedFieldsEntry::default()
            };
            let mut annotations = annotations;
            if let Some(trigger) = trigger {
                let key = "endpoints.kubernetes.io/last-change-trigger-time";
                let annotations = annotations.get_or_insert_default();
                annotations.insert(key.to_owned(), trigger);
            }
            ObjectMeta {
                name: Some(name),
                namespace: Some(namespace),
                resource_version,
                labels,
                annotations,
                deletion_timestamp: time.clone().filter(|_| is_leaving),
                creation_timestamp: time.filter(|_| is_old),
                generation: is_old.then_some(7),
                managed_fields: is_old.then(|| vec![managed]),
                ..ObjectMeta::default()
            }
        },
    )
}

fn service_port() -> impl Strategy<Value = ServicePort> {
    let name = of(prop_oneof![Just(String::new()), name()]);
    let target = of(prop_oneof![
        any::<i32>().prop_map(IntOrString::Int),
        text().prop_map(IntOrString::String),
    ]);
    (name, of(protocol()), port(), of(port()), target, of(text())).prop_map(
        |(name, protocol, port, node_port, target_port, app_protocol)| ServicePort {
            name,
            protocol,
            port,
            node_port,
            target_port,
            app_protocol,
        },
    )
}

/// Families and cluster IPs as the API server fills them in, or nothing.
fn cluster_ips() -> impl Strategy<Value = ServiceSpec> {
    let families = select(vec![
        vec!["IPv4"],
        vec!["IPv6"],
        vec!["IPv4", "IPv6"],
        vec!["IPv6", "IPv4"],
    ]);
    let listed = (families, v4(), v6()).prop_map(|(families, v4, v6)| {
        let of_family = |family: &&str| {
            if *family == "IPv4" {
                v4.clone()
            } else {
                v6.clone()
            }
        };
        let cluster_ips: Vec<_> = families.iter().map(of_family).collect();
        ServiceSpec {
            cluster_ip: cluster_ips.first().cloned(),
            cluster_ips: Some(cluster_ips),
            ip_families: Some(families.into_iter().map(str::to_owned).collect()),
            ..ServiceSpec::default()
        }
    });
    let single =
        of(prop_oneof![ip(), Just("None".to_owned())]).prop_map(|cluster_ip| ServiceSpec {
            cluster_ip,
            ..ServiceSpec::default()
        });
    prop_oneof![3 => listed, 1 => single]
}

fn affinity() -> impl Strategy<Value = SessionAffinityConfig> {
    let seconds = of(prop_oneof![1..=86_400, any::<i32>()]);
    of(seconds).prop_map(|client_ip| SessionAffinityConfig {
        client_ip: client_ip.map(|timeout_seconds| ClientIPConfig { timeout_seconds }),
    })
}

fn service_spec() -> impl Strategy<Value = ServiceSpec> {
    let types = of(word(&[
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
    ]));
    let policies = (of(policy()), of(policy()), of(text()));
    let affinity = (of(word(&["ClientIP", "None"])), of(affinity()));
    let lists = (
        of(vec(service_port(), 0..4)),
        of(vec(ip(), 0..3)),
        of(vec(cidr(), 0..3)),
    );
    let skipped = (
        of(btree_map(text(), text(), 0..3)),
        of(text()),
        of(any::<bool>()),
    );
    (
        cluster_ips(),
        types,
        policies,
        affinity,
        of(port()),
        lists,
        skipped,
    )
        .prop_map(
            |(cluster_ips, type_, policies, affinity, health_check_node_port, lists, skipped)| {
                ServiceSpec {
                    type_,
                    external_traffic_policy: policies.0,
                    internal_traffic_policy: policies.1,
                    ip_family_policy: policies.2,
                    session_affinity: affinity.0,
                    session_affinity_config: affinity.1,
                    health_check_node_port,
                    ports: lists.0,
                    external_ips: lists.1,
                    load_balancer_source_ranges: lists.2,
                    selector: skipped.0,
                    load_balancer_class: skipped.1.clone(),
                    external_name: skipped.1,
                    allocate_load_balancer_node_ports: skipped.2,
                    publish_not_ready_addresses: skipped.2,
                    ..cluster_ips
                }
            },
        )
}

pub(super) fn service() -> impl Strategy<Value = Service> {
    let ports = of(vec(
        port().prop_map(|port| PortStatus {
            port,
            ..PortStatus::default()
        }),
        0..2,
    ));
    let ingress = (of(ip()), of(word(&["VIP", "Proxy"])), of(text()), ports).prop_map(
        |(ip, ip_mode, hostname, ports)| LoadBalancerIngress {
            hostname,
            ip,
            ip_mode,
            ports,
        },
    );
    let status = of(of(of(vec(ingress, 0..3)))).prop_map(|status| {
        status.map(|load_balancer| ServiceStatus {
            load_balancer: load_balancer.map(|ingress| LoadBalancerStatus { ingress }),
            conditions: None,
        })
    });
    (metadata(), of(service_spec()), status).prop_map(|(metadata, spec, status)| Service {
        metadata,
        spec,
        status,
    })
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let maybe = || of(any::<bool>());
    let conditions =
        (maybe(), maybe(), maybe()).prop_map(|(ready, serving, terminating)| EndpointConditions {
            ready,
            serving,
            terminating,
        });
    let node = || word(&[NODE, "node-b"]);
    let zones = of(vec(text().prop_map(|name| ForZone { name }), 0..3));
    let nodes = of(vec(node().prop_map(|name| ForNode { name }), 0..3));
    let hints = (zones, nodes).prop_map(|(for_zones, for_nodes)| EndpointHints {
        for_nodes,
        for_zones,
    });
    let target = of(text()).prop_map(|name| {
        name.map(|name| ObjectReference {
            name: Some(name),
            ..ObjectReference::default()
        })
    });
    let skipped = (of(text()), target);
    (
        vec(ip(), 0..3),
        of(conditions),
        of(node()),
        of(hints),
        skipped,
    )
        .prop_map(
            |(addresses, conditions, node_name, hints, (zone, target_ref))| Endpoint {
                addresses,
                conditions,
                node_name,
                hints,
                target_ref,
                hostname: zone.clone(),
                zone,
                deprecated_topology: None,
            },
        )
}

pub(super) fn slice() -> impl Strategy<Value = EndpointSlice> {
    let ports = (of(text()), of(protocol()), of(port()), of(text())).prop_map(
        |(name, protocol, port, app_protocol)| EndpointPort {
            app_protocol,
            name,
            port,
            protocol,
        },
    );
    let (endpoints, ports) = (of(vec(endpoint(), 0..4)), of(vec(ports, 0..3)));
    (
        metadata(),
        word(&["IPv4", "IPv6", "FQDN"]),
        endpoints,
        ports,
    )
        .prop_map(|(metadata, address_type, endpoints, ports)| EndpointSlice {
            address_type,
            endpoints,
            metadata,
            ports,
        })
}

pub(super) fn node() -> impl Strategy<Value = Node> {
    let taint = word(&["ToBeDeletedByClusterAutoscaler", "a", "b", "c"]);
    let taint = taint.prop_map(|key| Taint {
        key,
        ..Taint::default()
    });
    let spec = (of(vec(cidr(), 0..3)), of(vec(taint, 0..2)), of(text())).prop_map(
        |(pod_cidrs, taints, provider_id)| NodeSpec {
            pod_cidr: pod_cidrs.as_ref().and_then(|cidrs| cidrs.first().cloned()),
            pod_cidrs,
            taints,
            provider_id,
            unschedulable: Some(true),
            ..NodeSpec::default()
        },
    );
    let address = (word(&["InternalIP", "ExternalIP", "Hostname"]), ip());
    let address = address.prop_map(|(type_, address)| NodeAddress { address, type_ });
    let image = (of(vec(text(), 0..2)), of(any::<i64>()));
    let image = image.prop_map(|(names, size_bytes)| ContainerImage { names, size_bytes });
    let status =
        (of(vec(address, 0..4)), of(vec(image, 0..2))).prop_map(|(addresses, images)| NodeStatus {
            addresses,
            images,
            ..NodeStatus::default()
        });
    (metadata(), of(spec), of(status)).prop_map(|(metadata, spec, status)| Node {
        metadata,
        spec,
        status,
    })
}
