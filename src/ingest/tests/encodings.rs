//! Both encodings of the API decode to the same object.
//!
//! The samples are of the API's own encoder: together they have every field that is read.

use std::fmt::Debug;

use prost::Message;
use serde::de::DeserializeOwned;

use crate::ingest::object::{Conditions, Time};
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject, ServicePortObject};

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
        let from_json: T = serde_json::from_str(self.json).unwrap();
        assert_eq!(from_json, T::decode(self.message()).unwrap());
        from_json
    }
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

/// Go writes a negative `int32` in ten bytes.
#[test]
fn negative_numbers_are_read() {
    let port = b"\x18\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_eq!(ServicePortObject::decode(&port[..]).unwrap().port, -5);
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
