//! An object means the same in both of the API's encodings.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use std::fmt::Debug;

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ingest::object::{
    ClientIpConfig, Conditions, EndpointObject, EndpointSliceObject, Entry, Hints, Ingress,
    LoadBalancerStatus, Metadata, Named, NodeAddress, NodeObject, NodeSpec, NodeStatus,
    ServiceObject, ServicePortObject, ServiceSpec, ServiceStatus, SessionAffinityConfig,
    SlicePortObject, Taint, Time,
};

/// What the API's own encoder wrote, without the envelope: its last field is the object, its first
/// the kind, and the other two are empty.
fn message<'a>(envelope: &'a [u8], kind: &str, version: &str) -> &'a [u8] {
    let kind = kind.len() + version.len() + 4;
    let rest = &envelope[b"k8s\0".len() + 2 + kind..];
    let (tag, mut rest) = rest.split_first().unwrap();
    assert_eq!(*tag, 2 << 3 | 2);
    let length = prost::decode_length_delimiter(&mut rest).unwrap();
    &rest[..length]
}

#[track_caller]
fn same_in_both<T: Message + Default + DeserializeOwned + PartialEq + Debug>(
    json: &str,
    envelope: &[u8],
    (kind, version): (&str, &str),
) -> T {
    let from_json: T = serde_json::from_str(json).unwrap();
    let from_protobuf = T::decode(message(envelope, kind, version)).unwrap();
    assert_eq!(from_json, from_protobuf);
    from_json
}

macro_rules! sample {
    ($name:literal, $kind:literal, $version:literal) => {
        same_in_both(
            include_str!(concat!("../../../tests/wire/", $name, ".json")),
            include_bytes!(concat!("../../../tests/wire/", $name, ".protobuf")),
            ($kind, $version),
        )
    };
}

#[test]
fn service_of_the_api_reads_the_same() {
    let full: ServiceObject = sample!("service", "Service", "v1");
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
    let bare: ServiceObject = sample!("bare-service", "Service", "v1");
    assert_eq!(bare.spec.ports[0].port, 80);
    assert_eq!(bare.spec.session_affinity_config, None);
}

#[test]
fn slice_of_the_api_reads_the_same() {
    let slice: EndpointSliceObject =
        sample!("endpoint-slice", "EndpointSlice", "discovery.k8s.io/v1");
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
    let node: NodeObject = sample!("node", "Node", "v1");
    assert_eq!(node.spec.pod_cidrs, ["10.244.1.0/24", "fd00:10:244:1::/64"]);
    assert_eq!(node.spec.taints[0].key, "ToBeDeletedByClusterAutoscaler");
    assert_eq!(node.status.addresses[2].address, "node-a");
}

#[track_caller]
fn survives_both<T>(object: &T)
where
    T: Message + Default + Serialize + DeserializeOwned + PartialEq + Debug,
{
    let json = serde_json::to_vec(object).unwrap();
    assert_eq!(&serde_json::from_slice::<T>(&json).unwrap(), object);
    assert_eq!(&T::decode(&*object.encode_to_vec()).unwrap(), object);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-zA-Z0-9:./-]{1,12}", "\\PC{1,8}"]
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), 1..=65_535_i64, any::<i32>().prop_map(i64::from)]
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let map = || {
        let entries = btree_map(text(), text(), 0..4);
        entries.prop_map(|entries| {
            let entries = entries.into_iter();
            entries.map(|(key, value)| Entry::new(key, value)).collect()
        })
    };
    (text(), text(), text(), any::<bool>(), map(), map()).prop_map(
        |(name, namespace, resource_version, is_leaving, labels, annotations)| Metadata {
            name,
            namespace,
            resource_version,
            deletion_timestamp: is_leaving.then_some(Time {}),
            labels,
            annotations,
        },
    )
}

fn service_port() -> impl Strategy<Value = ServicePortObject> {
    (text(), text(), number(), number()).prop_map(|(name, protocol, port, node_port)| {
        ServicePortObject {
            name,
            protocol,
            port,
            node_port,
        }
    })
}

fn affinity() -> impl Strategy<Value = SessionAffinityConfig> {
    option::of(option::of(number())).prop_map(|client_ip| SessionAffinityConfig {
        client_ip: client_ip.map(|timeout_seconds| ClientIpConfig { timeout_seconds }),
    })
}

fn spec() -> impl Strategy<Value = ServiceSpec> {
    let texts = || vec(text(), 0..3);
    (
        (text(), text(), text(), text(), number()),
        (
            option::of(text()),
            option::of(text()),
            option::of(affinity()),
        ),
        (
            texts(),
            texts(),
            texts(),
            texts(),
            vec(service_port(), 0..3),
        ),
    )
        .prop_map(|(plain, optional, lists)| ServiceSpec {
            type_: plain.0,
            cluster_ip: plain.1,
            session_affinity: plain.2,
            external_traffic_policy: plain.3,
            health_check_node_port: plain.4,
            ip_family_policy: optional.0,
            internal_traffic_policy: optional.1,
            session_affinity_config: optional.2,
            cluster_ips: lists.0,
            ip_families: lists.1,
            external_ips: lists.2,
            load_balancer_source_ranges: lists.3,
            ports: lists.4,
        })
}

fn service() -> impl Strategy<Value = ServiceObject> {
    let ingress = (text(), option::of(text())).prop_map(|(ip, ip_mode)| Ingress { ip, ip_mode });
    (metadata(), spec(), vec(ingress, 0..3)).prop_map(|(metadata, spec, ingress)| {
        let load_balancer = LoadBalancerStatus { ingress };
        ServiceObject {
            metadata,
            spec,
            status: ServiceStatus { load_balancer },
        }
    })
}

fn endpoint() -> impl Strategy<Value = EndpointObject> {
    let maybe = || option::of(any::<bool>());
    let names = || vec(text().prop_map(|name| Named { name }), 0..3);
    let conditions =
        (maybe(), maybe(), maybe()).prop_map(|(ready, serving, terminating)| Conditions {
            ready,
            serving,
            terminating,
        });
    let hints = (names(), names()).prop_map(|(for_zones, for_nodes)| Hints {
        for_zones,
        for_nodes,
    });
    (vec(text(), 0..3), conditions, option::of(text()), hints).prop_map(
        |(addresses, conditions, node_name, hints)| EndpointObject {
            addresses,
            conditions,
            node_name,
            hints,
        },
    )
}

fn slice() -> impl Strategy<Value = EndpointSliceObject> {
    let port = (option::of(text()), option::of(text()), option::of(number()));
    let port = port.prop_map(|(name, protocol, port)| SlicePortObject {
        name,
        protocol,
        port,
    });
    (metadata(), text(), vec(endpoint(), 0..4), vec(port, 0..3)).prop_map(
        |(metadata, address_type, endpoints, ports)| EndpointSliceObject {
            metadata,
            address_type,
            endpoints,
            ports,
        },
    )
}

fn node() -> impl Strategy<Value = NodeObject> {
    let taint = text().prop_map(|key| Taint { key });
    let address = (text(), text()).prop_map(|(type_, address)| NodeAddress { type_, address });
    let spec = (vec(text(), 0..3), vec(taint, 0..3))
        .prop_map(|(pod_cidrs, taints)| NodeSpec { pod_cidrs, taints });
    let status = vec(address, 0..3).prop_map(|addresses| NodeStatus { addresses });
    (metadata(), spec, status).prop_map(|(metadata, spec, status)| NodeObject {
        metadata,
        spec,
        status,
    })
}

proptest! {
    #[test]
    fn any_object_reads_the_same(service in service(), slice in slice(), node in node()) {
        survives_both(&service);
        survives_both(&slice);
        survives_both(&node);
    }

    /// Also: no garbage makes the decoder panic.
    #[test]
    fn a_cut_object_is_an_error_or_another_object(slice in slice(), cut in 0_usize..400) {
        let message = slice.encode_to_vec();
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
