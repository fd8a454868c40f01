//! The Services of the tables as Kubernetes objects, and the addresses they get.
//!
//! A Service's place among all of them makes its addresses, so that none is written by hand.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use crate::packets::table::{Endpoint, Service};
use crate::packets::words::Target;
use crate::support::lab::{NODE_ADDRESSES, POD_PORT, pod_address};
use crate::support::objects;
use crate::support::rules::Family;

/// Where the servers are that answer on UDP ports; their names are capital letters.
pub const UDP_POD_PORT: u16 = POD_PORT + 1;

/// The port of every Service.
pub const PORT: u16 = 80;

/// Where a server of the node's own is. Not 127.0.0.1, so that others can have a route to it.
pub const LOCALHOST: &str = "127.0.0.9";

/// NodePorts begin here. Below 30086, so that the API server gives none of them to a health check.
const FIRST_NODE_PORT: u16 = 30000;
const MOST_NODE_PORTS: usize = 86;

/// Where a client finds the Service that is number `index`.
pub fn address(target: Target, index: usize, family: Family) -> SocketAddr {
    let number = index + 1;
    let is_v4 = family == Family::V4;
    let text = match target {
        Target::ClusterIp if is_v4 => format!("10.97.0.{number}"),
        Target::ClusterIp => format!("fd00:10:96::{:x}", 0x1000 + number),
        Target::ExternalIp if is_v4 => format!("203.0.113.{number}"),
        Target::ExternalIp => format!("2001:db8:cafe:1::{number:x}"),
        Target::LoadBalancer if is_v4 => format!("198.51.100.{number}"),
        Target::LoadBalancer => format!("2001:db8:cafe:2::{number:x}"),
        Target::NodePort if is_v4 => NODE_ADDRESSES[0].to_owned(),
        Target::NodePort => NODE_ADDRESSES[1].to_owned(),
        Target::NodePortInside => pod_address(family, 1).to_string(),
        Target::Localhost if is_v4 => LOCALHOST.to_owned(),
        Target::Loopback if is_v4 => "127.0.0.1".to_owned(),
        Target::Loopback | Target::Localhost => "::1".to_owned(),
    };
    let port = match target {
        Target::NodePort | Target::NodePortInside | Target::Loopback => node_port(index),
        _ => PORT,
    };
    SocketAddr::new(text.parse::<IpAddr>().unwrap(), port)
}

fn node_port(index: usize) -> u16 {
    assert!(index < MOST_NODE_PORTS, "no node ports left");
    FIRST_NODE_PORT + u16::try_from(index).unwrap()
}

fn both(target: Target, index: usize) -> [String; 2] {
    Family::ALL.map(|family| address(target, index, family).ip().to_string())
}

/// The Service object.
pub fn object(service: &Service, index: usize) -> Value {
    let is_internal = service.word("type") == Some("ClusterIP");
    let cluster_ips = both(Target::ClusterIp, index);
    let mut ports =
        vec![json!({"name": "http", "protocol": "TCP", "port": PORT, "targetPort": POD_PORT})];
    if service.word("udp").is_some() {
        ports.push(
            json!({"name": "dns", "protocol": "UDP", "port": PORT, "targetPort": UDP_POD_PORT}),
        );
    }
    let mut spec = json!({
        "type": if is_internal { "ClusterIP" } else { "LoadBalancer" },
        "clusterIP": cluster_ips[0],
        "clusterIPs": cluster_ips,
        "ipFamilyPolicy": "RequireDualStack",
        "ipFamilies": ["IPv4", "IPv6"],
        "internalTrafficPolicy": service.word("internal").unwrap_or("Cluster"),
    });
    if service.word("affinity").is_some() {
        spec["sessionAffinity"] = "ClientIP".into();
    }
    if !is_internal {
        for port in &mut ports {
            port["nodePort"] = node_port(index).into();
        }
        spec["externalIPs"] = json!(both(Target::ExternalIp, index));
        spec["externalTrafficPolicy"] = service.word("external").unwrap_or("Cluster").into();
    }
    if let Some(ranges) = service.word("ranges") {
        spec["loadBalancerSourceRanges"] = ranges.split(',').collect();
    }
    spec["ports"] = ports.into();
    let mut object = objects::service(&service.name, spec);
    if !is_internal {
        let mode = service.word("mode").unwrap_or("VIP");
        let ingress = both(Target::LoadBalancer, index).map(|ip| json!({"ip": ip, "ipMode": mode}));
        object["status"] = json!({"loadBalancer": {"ingress": ingress}});
    }
    object
}

/// The EndpointSlices of a Service, one for each family.
pub fn slices(service: &Service) -> Vec<Value> {
    let of = |family: Family| slice(service, family, &service.endpoints);
    Family::ALL.map(of).into()
}

/// The EndpointSlice of one family with some of the endpoints.
pub fn slice(service: &Service, family: Family, endpoints: &[Endpoint]) -> Value {
    let name = match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    };
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|each| endpoint(each, family))
        .collect();
    let mut ports = vec![json!({"name": "http", "protocol": "TCP", "port": POD_PORT})];
    if service.word("udp").is_some() {
        ports.push(json!({"name": "dns", "protocol": "UDP", "port": UDP_POD_PORT}));
    }
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{}-{}", service.name, name.to_lowercase()),
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": service.name},
        },
        "addressType": name,
        "endpoints": endpoints,
        "ports": ports,
    })
}

fn endpoint(endpoint: &Endpoint, family: Family) -> Value {
    let node = match endpoint.server {
        HOST_SERVER => objects::NODE,
        pod => place(pod).0,
    };
    let (ready, serving, terminating) = match endpoint.condition {
        None => (true, true, false),
        Some('~') => (false, true, true),
        Some('!') => (false, false, true),
        Some('?') => (false, false, false),
        Some(other) => panic!("no condition `{other}`"),
    };
    let mut object = json!({
        "addresses": [server_address(endpoint.server, family)],
        "nodeName": node,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
    });
    let (zones, nodes): (Vec<_>, Vec<_>) = endpoint
        .hints
        .iter()
        .map(|name| json!({"name": name}))
        .partition(|hint| hint["name"].as_str().unwrap().starts_with("zone-"));
    if !zones.is_empty() {
        object["hints"]["forZones"] = zones.into();
    }
    if !nodes.is_empty() {
        object["hints"]["forNodes"] = nodes.into();
    }
    object
}

/// The server on the node's own network.
pub const HOST_SERVER: char = 'h';

/// Where a server is.
pub fn server_address(server: char, family: Family) -> IpAddr {
    match (server, family) {
        (HOST_SERVER, Family::V4) => NODE_ADDRESSES[0].parse().unwrap(),
        (HOST_SERVER, Family::V6) => NODE_ADDRESSES[1].parse().unwrap(),
        (pod, family) => pod_address(family, place(pod).1),
    }
}

/// The node that a server's pod is on, and the pod's host number.
pub fn place(server: char) -> (&'static str, u8) {
    match server {
        'a' => (objects::NODE, 11),
        'b' => (objects::NODE, 12),
        'c' => ("node2", 31),
        other => panic!("no server `{other}`"),
    }
}
