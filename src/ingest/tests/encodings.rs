//! Both encodings of the API decode to the same object, and that to the model which the typed
//! object of `k8s_openapi` describes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::objects::{self, NODE};
use super::protobuf::Encode;
use crate::ingest::object::{Conditions, EndpointSliceObject, NodeObject, ServiceObject};
use crate::ingest::object::{Metadata, Time};
use crate::ingest::{Interner, endpoint_slice, node, service};
use crate::model::{
    Endpoint, Node, NodeHint, Service, ServiceName, ServicePort, Slice, SliceName, SlicePort,
    Topology, TrafficPolicy,
};
use crate::net::{IpFamily, IpNet, PerFamily, Port, Protocol, is_unroutable, parse_cidr, parse_ip};

/// Object in the encodings of the API server, with its type.
struct Sample {
    json: &'static str,
    /// With the envelope.
    protobuf: &'static [u8],
    kind: &'static str,
    version: &'static str,
}

macro_rules! sample {
    ($name:literal, $kind:literal, $version:literal) => {
        Sample {
            json: include_str!(concat!("../../../tests/wire/", $name, ".json")),
            protobuf: include_bytes!(concat!("../../../tests/wire/", $name, ".protobuf")),
            kind: $kind,
            version: $version,
        }
    };
}

const SERVICE: Sample = sample!("service", "Service", "v1");
const BARE_SERVICE: Sample = sample!("bare-service", "Service", "v1");
const SLICE: Sample = sample!("endpoint-slice", "EndpointSlice", "discovery.k8s.io/v1");
const NODE_SAMPLE: Sample = sample!("node", "Node", "v1");

impl Sample {
    /// Message of the object. The envelope ends with it; before it are the kind and the version,
    /// and two fields that are empty.
    fn message(&self) -> &[u8] {
        let type_meta = self.kind.len() + self.version.len() + 4;
        let rest = &self.protobuf[b"k8s\0".len() + 2 + type_meta..];
        let (tag, mut rest) = rest.split_first().unwrap();
        assert_eq!(*tag, 2 << 3 | 2);
        let length = prost::decode_length_delimiter(&mut rest).unwrap();
        &rest[..length]
    }

    /// Decodes both encodings, which must agree.
    #[track_caller]
    fn decoded<T: Message + Default + DeserializeOwned + PartialEq + Debug>(&self) -> T {
        agreed(self.json.as_bytes(), self.message()).unwrap()
    }

    /// Asserts that this part of the object is encoded as by the API server.
    #[track_caller]
    fn assert_has(&self, part: &impl Encode) {
        let part = part.encoded();
        let mut windows = self.message().windows(part.len());
        assert!(windows.any(|window| window == part));
    }
}

fn agreed<T>(json: &[u8], protobuf: &[u8]) -> Result<T, TestCaseError>
where
    T: Message + Default + DeserializeOwned + PartialEq + Debug,
{
    let from_json: T = serde_json::from_slice(json).unwrap();
    let from_protobuf = T::decode(protobuf).unwrap();
    prop_assert_eq!(&from_json, &from_protobuf);
    Ok(from_json)
}

#[test]
fn service_of_the_api_reads_the_same() {
    let full: ServiceObject = SERVICE.decoded();
    let spec = &full.spec;
    assert_eq!(full.metadata.name, "cart");
    assert_eq!(full.metadata.label("empty").as_deref(), Some(""));
    assert_eq!(full.metadata.deletion_timestamp, Some(Time {}));
    assert_eq!(spec.cluster_ips, ["10.96.0.7", "fd00:10:96::7"]);
    assert_eq!(spec.ip_family_policy.as_deref(), Some("RequireDualStack"));
    assert_eq!(spec.internal_traffic_policy.as_deref(), Some("Local"));
    assert_eq!(spec.health_check_node_port, 31_999);
    let affinity = spec
        .session_affinity_config
        .as_ref()
        .unwrap()
        .client_ip
        .as_ref();
    assert_eq!(affinity.unwrap().timeout_seconds, Some(600));
    assert_eq!(
        full.status.load_balancer.ingress[0].ip_mode.as_deref(),
        Some("Proxy")
    );
    assert_eq!(full.status.load_balancer.ingress[1].ip, "");

    // What JSON leaves out, protobuf writes as zero.
    let bare: ServiceObject = BARE_SERVICE.decoded();
    assert_eq!(bare.spec.ports[0].port, 80);
    assert_eq!(bare.spec.session_affinity_config, None);
}

#[test]
fn slice_of_the_api_reads_the_same() {
    let slice: EndpointSliceObject = SLICE.decoded();
    let [first, second, third] = &slice.endpoints[..] else {
        panic!("{slice:?}");
    };
    assert_eq!(slice.address_type, "IPv4");
    assert_eq!(first.node_name.as_deref(), Some("node-a"));
    assert_eq!(first.hints.for_nodes[0].name, "node-a");
    assert_eq!(first.hints.for_zones[1].name, "zone-b");
    assert_eq!(second.conditions.ready, Some(false));
    assert_eq!(second.conditions.serving, None);
    assert_eq!(third.conditions, Conditions::default());
    // An absent name and an empty one are not the same here.
    assert_eq!(slice.ports[1].name.as_deref(), Some(""));
    assert_eq!(slice.ports[2].name, None);
}

#[test]
fn node_of_the_api_reads_the_same() {
    let node: NodeObject = NODE_SAMPLE.decoded();
    assert_eq!(node.spec.pod_cidrs, ["10.244.1.0/24", "fd00:10:244:1::/64"]);
    assert_eq!(node.spec.taints[0].key, "ToBeDeletedByClusterAutoscaler");
    assert_eq!(node.status.addresses[2].address, "node-a");
}

/// The encoder of these tests against that of the API server.
#[test]
fn typed_objects_are_encoded_as_by_the_api_server() {
    let slice: discovery::EndpointSlice = serde_json::from_str(SLICE.json).unwrap();
    assert_eq!(slice.encoded(), SLICE.message());

    // `k8s_openapi` rejects the conditions of the sample: a time of theirs is null.
    let mut json: serde_json::Value = serde_json::from_str(SERVICE.json).unwrap();
    json["status"].as_object_mut().unwrap().remove("conditions");
    let service: core::Service = serde_json::from_value(json).unwrap();
    SERVICE.assert_has(&service.metadata);
    SERVICE.assert_has(&service.spec.unwrap());
    SERVICE.assert_has(&service.status.unwrap());

    let node: core::Node = serde_json::from_str(NODE_SAMPLE.json).unwrap();
    NODE_SAMPLE.assert_has(&node.metadata);
    NODE_SAMPLE.assert_has(&node.spec.unwrap());
    let status = node.status.unwrap();
    for address in &status.addresses.unwrap() {
        NODE_SAMPLE.assert_has(address);
    }
    for image in &status.images.unwrap() {
        NODE_SAMPLE.assert_has(image);
    }
}

/// Decodes both encodings of an object, which must agree.
fn decoded<T>(object: &(impl Serialize + Encode)) -> Result<T, TestCaseError>
where
    T: Message + Default + DeserializeOwned + PartialEq + Debug,
{
    agreed(&serde_json::to_vec(object).unwrap(), &object.encoded())
}

/// Checks the metadata that the model does not hold.
fn check_metadata(decoded: &Metadata, object: &ObjectMeta) -> Result<(), TestCaseError> {
    prop_assert_eq!(Some(&decoded.name), object.name.as_ref());
    prop_assert_eq!(Some(&decoded.namespace), object.namespace.as_ref());
    let version = object.resource_version.clone().unwrap_or_default();
    prop_assert_eq!(&decoded.resource_version, &version);
    Ok(())
}

fn parsed(ips: Option<&Vec<String>>) -> Vec<IpAddr> {
    let ips = ips.into_iter().flatten();
    ips.filter_map(|ip| parse_ip(ip)).collect()
}

fn port(number: Option<i32>) -> Option<Port> {
    u16::try_from(number?).ok().and_then(Port::new)
}

fn protocol(text: Option<&str>) -> Option<Protocol> {
    match text {
        None | Some("") => Some(Protocol::Tcp),
        Some(text) => Protocol::from_api(text),
    }
}

fn policy(text: Option<&str>) -> TrafficPolicy {
    match text {
        Some("Local") => TrafficPolicy::Local,
        _ => TrafficPolicy::Cluster,
    }
}

fn label<'o>(metadata: &'o ObjectMeta, key: &str) -> Option<&'o str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn expected_ports(spec: &core::ServiceSpec) -> Box<[ServicePort]> {
    let mut ports = BTreeMap::new();
    for object in spec.ports.iter().flatten() {
        let protocol = protocol(object.protocol.as_deref());
        let Some((protocol, number)) = protocol.zip(port(Some(object.port))) else {
            continue;
        };
        let name: Arc<str> = object.name.clone().unwrap_or_default().into();
        let service_port = ServicePort {
            name: Arc::clone(&name),
            protocol,
            port: number,
            node_port: port(object.node_port),
        };
        ports.insert((name, protocol), service_port);
    }
    ports.into_values().collect()
}

fn expected_service(object: &core::Service, family: IpFamily) -> Option<Service> {
    let spec = object.spec.as_ref()?;
    let type_ = spec.type_.as_deref().unwrap_or("ClusterIP");
    if type_ == "ExternalName" {
        return None;
    }
    let of_family = |ip: &IpAddr| IpFamily::of(*ip) == family;
    let single = spec.cluster_ip.clone().map(|ip| vec![ip]);
    let cluster_ips = parsed(spec.cluster_ips.as_ref().or(single.as_ref()));
    let external_ips = parsed(spec.external_ips.as_ref()).into_iter();
    let status = object.status.as_ref();
    let load_balancer = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    let is_vip = |mode: Option<&str>| matches!(mode, None | Some("VIP"));
    let vips = load_balancer.into_iter().flatten().filter_map(|ingress| {
        parse_ip(ingress.ip.as_ref()?).filter(|_| is_vip(ingress.ip_mode.as_deref()))
    });
    let ranges = spec.load_balancer_source_ranges.iter().flatten();
    let mut ranges: Vec<IpNet> = ranges.filter_map(|range| parse_cidr(range)).collect();
    ranges.retain(|range| IpFamily::of_cidr(*range) == family);
    if ranges.iter().any(|range| range.prefix_len() == 0) {
        ranges.clear();
    }
    let has_external_policy = match type_ {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" | "" => spec
            .external_ips
            .as_ref()
            .is_some_and(|ips| !ips.is_empty()),
        _ => false,
    };
    let external_policy = spec.external_traffic_policy.as_deref();
    let external_policy = policy(external_policy.filter(|_| has_external_policy));
    let is_local = external_policy == TrafficPolicy::Local;
    let client_ip = spec
        .session_affinity_config
        .as_ref()
        .and_then(|c| c.client_ip.as_ref());
    let timeout = client_ip.and_then(|client_ip| client_ip.timeout_seconds);
    let timeout = timeout.filter(|seconds| (1..=86_400).contains(seconds));
    let timeout = Duration::from_secs(u64::try_from(timeout.unwrap_or(10_800)).unwrap());
    let has_affinity = spec.session_affinity.as_deref() == Some("ClientIP");
    Some(Service {
        cluster_ip: cluster_ips.into_iter().find(of_family)?,
        external_ips: external_ips
            .filter(of_family)
            .filter(|ip| !is_unroutable(*ip))
            .collect(),
        load_balancer_ips: vips.filter(of_family).collect(),
        source_ranges: ranges.into(),
        internal_policy: policy(spec.internal_traffic_policy.as_deref()),
        external_policy,
        affinity: has_affinity.then_some(timeout),
        health_check_node_port: port(spec.health_check_node_port)
            .filter(|_| type_ == "LoadBalancer" && is_local),
        ports: expected_ports(spec),
    })
}

fn expected_endpoint(object: &discovery::Endpoint, family: IpFamily) -> Option<Endpoint> {
    let ip = parse_ip(object.addresses.first()?)?;
    let conditions = object.conditions.clone().unwrap_or_default();
    let hints = object.hints.clone().unwrap_or_default();
    let nodes = hints.for_nodes.unwrap_or_default();
    let node_hint = match () {
        () if nodes.is_empty() => NodeHint::Absent,
        () if nodes.iter().any(|node| node.name == NODE) => NodeHint::Here,
        () => NodeHint::Elsewhere,
    };
    let zones = hints.for_zones.unwrap_or_default().into_iter();
    (IpFamily::of(ip) == family && !is_unroutable(ip)).then(|| Endpoint {
        ip,
        is_ready: conditions.ready != Some(false),
        is_serving: conditions.serving != Some(false),
        is_terminating: conditions.terminating == Some(true),
        is_local: object.node_name.as_deref() == Some(NODE),
        node_hint,
        zone_hints: zones.map(|zone| zone.name.into()).collect(),
    })
}

fn expected_slice_port(object: &discovery::EndpointPort) -> Option<SlicePort> {
    Some(SlicePort {
        name: object.name.as_deref()?.into(),
        protocol: protocol(object.protocol.as_deref())?,
        number: port(object.port)?,
    })
}

fn expected_slice(object: &discovery::EndpointSlice) -> Option<Slice> {
    let family = match &*object.address_type {
        "IPv4" => IpFamily::V4,
        "IPv6" => IpFamily::V6,
        _ => return None,
    };
    let service = label(&object.metadata, "kubernetes.io/service-name")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if !service.starts_with(|c: char| c.is_ascii_alphanumeric()) || !service.chars().all(is_name) {
        return None;
    }
    let ports = object.ports.iter().flatten();
    let endpoints = object.endpoints.iter().flatten();
    Some(Slice {
        service: ServiceName::new(object.metadata.namespace.as_deref()?, service),
        ports: ports.filter_map(expected_slice_port).collect(),
        endpoints: endpoints
            .filter_map(|object| expected_endpoint(object, family))
            .collect(),
    })
}

fn expected_trigger(metadata: &ObjectMeta) -> Option<SystemTime> {
    let annotations = metadata.annotations.as_ref()?;
    let text = annotations.get("endpoints.kubernetes.io/last-change-trigger-time")?;
    text.parse::<jiff::Timestamp>().map(SystemTime::from).ok()
}

fn expected_node(object: &core::Node) -> Node {
    let spec = object.spec.clone().unwrap_or_default();
    let listed = object
        .status
        .as_ref()
        .and_then(|status| status.addresses.as_ref());
    let mut addresses = Vec::new();
    for type_ in ["InternalIP", "ExternalIP"] {
        let of_type = listed
            .into_iter()
            .flatten()
            .filter(|address| address.type_ == type_);
        addresses.extend(of_type.filter_map(|address| parse_ip(&address.address)));
    }
    let mut taints = spec.taints.iter().flatten();
    let zone = label(&object.metadata, "topology.kubernetes.io/zone");
    let pod_cidrs = spec.pod_cidrs.iter().flatten();
    Node {
        topology: Topology {
            zone: zone.filter(|zone| !zone.is_empty()).map(Arc::from),
        },
        addresses,
        pod_cidrs: pod_cidrs.filter_map(|cidr| parse_cidr(cidr)).collect(),
        is_leaving: taints.any(|taint| taint.key == "ToBeDeletedByClusterAutoscaler")
            || object.metadata.deletion_timestamp.is_some(),
    }
}

proptest! {
    #[test]
    fn random_service_reduces_to_the_expected_model(object in objects::service()) {
        let decoded: ServiceObject = decoded(&object)?;
        check_metadata(&decoded.metadata, &object.metadata)?;
        let policy = object.spec.as_ref().and_then(|spec| spec.ip_family_policy.as_ref());
        prop_assert_eq!(decoded.spec.ip_family_policy.as_ref(), policy);
        let (_, reduced, _) = service(&decoded, &mut Interner::default());
        let expected = PerFamily::from_fn(|family| expected_service(&object, family));
        prop_assert_eq!(reduced, expected);
    }

    #[test]
    fn random_slice_reduces_to_the_expected_model(object in objects::slice()) {
        let decoded: EndpointSliceObject = decoded(&object)?;
        check_metadata(&decoded.metadata, &object.metadata)?;
        let reduced = endpoint_slice(&decoded, NODE, &mut Interner::default());
        let metadata = &object.metadata;
        let [namespace, name] = [&metadata.namespace, &metadata.name].map(|text| text.as_ref().unwrap());
        prop_assert_eq!(reduced.name, SliceName::new(namespace, name));
        let expected = expected_slice(&object);
        let trigger = expected.as_ref().and_then(|_| expected_trigger(metadata));
        prop_assert_eq!(reduced.trigger, trigger);
        prop_assert_eq!(reduced.slice, expected);
    }

    #[test]
    fn random_node_reduces_to_the_expected_model(object in objects::node()) {
        let decoded: NodeObject = decoded(&object)?;
        check_metadata(&decoded.metadata, &object.metadata)?;
        prop_assert_eq!(node(&decoded).0, expected_node(&object));
    }

    /// Also: no garbage makes the decoder panic.
    #[test]
    fn a_cut_object_is_an_error_or_another_object(slice in objects::slice(), cut in 0_usize..400) {
        let message = slice.encoded();
        let _ = EndpointSliceObject::decode(&message[..cut.min(message.len())]);
        let _ = EndpointSliceObject::decode(&message[cut.min(message.len())..]);
    }
}

#[test]
fn labels_that_are_not_utf8_leave_the_object_readable() {
    let entry = b"\x0a\x01\xff\x12\x01\xff";
    let used = b"\x0a\x01k\x12\x02v\xff";
    let metadata = [b"\x0a\x01a\x5a\x06".as_slice(), entry, b"\x5a\x07", used].concat();
    let object = [&[0x0a, 20], metadata.as_slice()].concat();
    let object = ServiceObject::decode(&*object).unwrap();
    assert_eq!(object.metadata.name, "a");
    assert_eq!(object.metadata.label("k").as_deref(), Some("v\u{fffd}"));
    assert_eq!(object.metadata.label("missing"), None);
}
