//! Statements about objects, written as the API has them.
//!
//! ```text
//! service    ns1/svc1 type=LoadBalancer cluster=172.30.0.41 clusters=172.30.0.41,fd00:30::41
//!            port=NAME:80/tcp:30080 external=1.2.3.4 lb=5.6.7.8 lb=9.10.11.12/Proxy
//!            range="1.2.3.0/24 " external-policy=Local internal-policy=Local affinity=10800
//!            health-check=31999
//! endpoints  ns1/svc1 slice=a type=FQDN port=NAME:8080/udp 10.180.0.1@node-a,not-ready,zone=z,node=n
//! node       zone=z ip=192.168.0.2 external-ip=1.1.1.1 pod-cidr=10.180.0.0/24
//! ```
//!
//! What is not written is absent. Conditions: `ready`, `not-ready`, `serving`, `not-serving`,
//! `terminating`, `not-terminating`.

use deltaproxy::testing::ingest::{
    ClientIpConfig, EndpointObject, EndpointSliceObject, Ingress, MapEntry, Named, NodeAddress,
    NodeObject, ServiceObject, ServicePortObject, SessionAffinityConfig, SlicePortObject,
};
use deltaproxy::testing::net::IpFamily;

use super::options::{default_node_ip, number};

/// The label that ties a slice to its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Reads what follows `service`.
pub(crate) fn service(words: &[String]) -> Result<ServiceObject, String> {
    let (name, rest) = words.split_first().ok_or("which Service?")?;
    let mut object = ServiceObject::default();
    (object.metadata.namespace, object.metadata.name) = namespaced(name)?;
    for word in rest {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let set = set_service(&mut object, key, value);
        set.map_err(|error| format!("{word}: {error}"))?;
    }
    Ok(object)
}

fn set_service(object: &mut ServiceObject, key: &str, value: &str) -> Result<(), String> {
    let text = value.to_owned();
    let spec = &mut object.spec;
    match key {
        "type" => spec.type_ = text,
        "cluster" => spec.cluster_ip = text,
        "clusters" => {
            spec.cluster_ips = value.split(',').map(str::to_owned).collect();
            spec.cluster_ip = spec.cluster_ips.first().cloned().unwrap_or_default();
            let family = |ip: &String| family(ip).as_str().to_owned();
            spec.ip_families = spec.cluster_ips.iter().map(family).collect();
        }
        "port" => spec.ports.push(service_port(value)?),
        "external" => spec.external_ips.push(value.to_owned()),
        "lb" => {
            let (ip, mode) = value.split_once('/').unwrap_or((value, ""));
            object.status.load_balancer.ingress.push(Ingress {
                ip: ip.to_owned(),
                ip_mode: (!mode.is_empty()).then(|| mode.to_owned()),
            });
        }
        "range" => spec.load_balancer_source_ranges.push(value.to_owned()),
        "external-policy" => spec.external_traffic_policy = text,
        "internal-policy" => spec.internal_traffic_policy = Some(text),
        "affinity" => {
            "ClientIP".clone_into(&mut spec.session_affinity);
            let timeout_seconds = Some(number(value)?);
            let client_ip = Some(ClientIpConfig { timeout_seconds });
            spec.session_affinity_config = Some(SessionAffinityConfig { client_ip });
        }
        "health-check" => spec.health_check_node_port = number(value)?,
        _ => return Err("no such field".to_owned()),
    }
    Ok(())
}

/// `NAME:PORT[/PROTOCOL][:NODEPORT]`.
fn service_port(text: &str) -> Result<ServicePortObject, String> {
    let mut parts = text.splitn(3, ':');
    let name = parts.next().unwrap_or_default().to_owned();
    let (port, protocol) = port_and_protocol(parts.next().ok_or("NAME:PORT is needed")?)?;
    Ok(ServicePortObject {
        name,
        protocol: protocol.unwrap_or_default(),
        port,
        node_port: parts.next().map_or(Ok(0), number)?,
    })
}

fn port_and_protocol(text: &str) -> Result<(i64, Option<String>), String> {
    match text.split_once('/') {
        Some((port, protocol)) => Ok((number(port)?, Some(protocol.to_uppercase()))),
        None => Ok((number(text)?, None)),
    }
}

/// Reads what follows `endpoints`.
pub(crate) fn endpoints(words: &[String]) -> Result<EndpointSliceObject, String> {
    let (service, rest) = words.split_first().ok_or("of which Service?")?;
    let mut object = EndpointSliceObject::default();
    let (namespace, service) = namespaced(service)?;
    object.metadata.namespace = namespace;
    object.metadata.name = format!("{service}-1");
    object
        .metadata
        .labels
        .push(MapEntry::new(SERVICE_NAME, service));
    for word in rest {
        match word.split_once('=') {
            Some(("slice", name)) => name.clone_into(&mut object.metadata.name),
            Some(("type", text)) => text.clone_into(&mut object.address_type),
            Some(("port", text)) => object.ports.push(slice_port(text)?),
            _ => object.endpoints.push(endpoint(word)?),
        }
    }
    if object.address_type.is_empty() {
        let first = object.endpoints.first().and_then(|e| e.addresses.first());
        let family = first.map_or(IpFamily::V4, |ip| family(ip));
        family.as_str().clone_into(&mut object.address_type);
    }
    Ok(object)
}

/// `NAME:PORT[/PROTOCOL]`; `NAME` alone has no number, `:PORT` an empty name, `!:PORT` none.
fn slice_port(text: &str) -> Result<SlicePortObject, String> {
    let (name, port) = text.split_once(':').unwrap_or((text, ""));
    let (port, protocol) = match port {
        "" => (None, None),
        port => {
            let (port, protocol) = port_and_protocol(port)?;
            (Some(port), protocol)
        }
    };
    Ok(SlicePortObject {
        name: (name != "!").then(|| name.to_owned()),
        protocol,
        port,
    })
}

/// `ADDRESS[@NODE][,CONDITION][,zone=Z][,node=N]...`; `-` has no address.
fn endpoint(text: &str) -> Result<EndpointObject, String> {
    let mut parts = text.split(',');
    let mut endpoint = EndpointObject::default();
    let place = parts.next().unwrap_or_default();
    let (address, node) = match place.split_once('@') {
        Some((address, node)) => (address, Some(node.to_owned())),
        None => (place, None),
    };
    endpoint.node_name = node;
    if address != "-" {
        endpoint.addresses.push(address.to_owned());
    }
    let named = |name: &str| Named {
        name: name.to_owned(),
    };
    for part in parts {
        let conditions = &mut endpoint.conditions;
        match part.split_once('=').unwrap_or((part, "")) {
            ("ready", "") => conditions.ready = Some(true),
            ("not-ready", "") => conditions.ready = Some(false),
            ("serving", "") => conditions.serving = Some(true),
            ("not-serving", "") => conditions.serving = Some(false),
            ("terminating", "") => conditions.terminating = Some(true),
            ("not-terminating", "") => conditions.terminating = Some(false),
            ("zone", zone) => endpoint.hints.for_zones.push(named(zone)),
            ("node", node) => endpoint.hints.for_nodes.push(named(node)),
            _ => return Err(format!("{text}: `{part}` is nothing known")),
        }
    }
    Ok(endpoint)
}

/// Reads what follows `node`; without `ip` it has the default one.
pub(crate) fn node(words: &[String], family: IpFamily) -> Result<NodeObject, String> {
    let mut node = NodeObject::default();
    "node-a".clone_into(&mut node.metadata.name);
    let mut address = |type_: &str, address: &str| {
        node.status.addresses.push(NodeAddress {
            type_: type_.to_owned(),
            address: address.to_owned(),
        });
    };
    for word in words {
        match word.split_once('=') {
            Some(("ip", ip)) => address("InternalIP", ip),
            Some(("external-ip", ip)) => address("ExternalIP", ip),
            Some(("zone", zone)) => {
                let label = MapEntry::new("topology.kubernetes.io/zone", zone);
                node.metadata.labels.push(label);
            }
            Some(("pod-cidr", cidr)) => node.spec.pod_cidrs.push(cidr.to_owned()),
            _ => return Err(format!("`{word}` is nothing known")),
        }
    }
    if node.status.addresses.is_empty() {
        node.status.addresses.push(NodeAddress {
            type_: "InternalIP".to_owned(),
            address: default_node_ip(family).to_string(),
        });
    }
    Ok(node)
}

/// `NAMESPACE/NAME`.
pub(crate) fn namespaced(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('/');
    let (namespace, name) = parts.ok_or_else(|| format!("`{text}` has no namespace"))?;
    Ok((namespace.to_owned(), name.to_owned()))
}

fn family(ip: &str) -> IpFamily {
    if ip.contains(':') {
        IpFamily::V6
    } else {
        IpFamily::V4
    }
}
