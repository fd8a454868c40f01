//! Encodes `k8s_openapi` objects as protobuf, in the layout of the API server's own encoder.
//!
//! `k8s_openapi` has no protobuf. Field numbers are written here a second time, independent of
//! those of the decoder.
//!
//! Upstream: k8s.io/api/core/v1/generated.proto, k8s.io/api/discovery/v1/generated.proto,
//! k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto (v1.37)

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ClientIPConfig, ContainerImage, LoadBalancerIngress, LoadBalancerStatus, Node, NodeAddress,
    NodeSpec, NodeStatus, ObjectReference, PortStatus, Service, ServicePort, ServiceSpec,
    ServiceStatus, SessionAffinityConfig, Taint,
};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use prost::encoding;

/// Value of a field.
trait Field {
    /// Writes the field; a pointer or a list writes nothing if it is empty.
    fn write(&self, tag: u32, out: &mut Vec<u8>);

    /// Writes the field as Go writes one that is not a pointer: its zero value if it is absent.
    fn write_or_zero(&self, tag: u32, out: &mut Vec<u8>) {
        self.write(tag, out);
    }
}

macro_rules! scalars {
    ($($type:ty: $codec:ident),*) => {$(
        impl Field for $type {
            fn write(&self, tag: u32, out: &mut Vec<u8>) {
                encoding::$codec::encode(tag, self, out);
            }
        }
    )*};
}

scalars!(String: string, i32: int32, i64: int64, bool: bool, Vec<u8>: bytes);

impl<T: Field + Default> Field for Option<T> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write(tag, out);
        }
    }

    fn write_or_zero(&self, tag: u32, out: &mut Vec<u8>) {
        self.as_ref().unwrap_or(&T::default()).write(tag, out);
    }
}

macro_rules! lists {
    ($($type:ty),*) => {$(
        impl Field for Vec<$type> {
            fn write(&self, tag: u32, out: &mut Vec<u8>) {
                for value in self {
                    value.write(tag, out);
                }
            }
        }
    )*};
}

lists!(
    String,
    ContainerImage,
    Endpoint,
    EndpointPort,
    ForNode,
    ForZone,
    LoadBalancerIngress,
    ManagedFieldsEntry,
    NodeAddress,
    OwnerReference,
    PortStatus,
    ServicePort,
    Taint
);

impl Field for BTreeMap<String, String> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        for (key, value) in self {
            let mut entry = Vec::new();
            key.write(1, &mut entry);
            value.write(2, &mut entry);
            entry.write(tag, out);
        }
    }
}

/// Object of the API, encoded without the envelope.
pub(super) trait Encode {
    fn encoded(&self) -> Vec<u8>;
}

/// Lists the fields of messages in the order of their numbers. A pointer is absent if
/// it is not set.
macro_rules! messages {
    ($($type:ty { $($tag:literal $field:ident $($pointer:ident)?),* })*) => {$(
        impl Encode for $type {
            fn encoded(&self) -> Vec<u8> {
                let mut out = Vec::new();
                $(messages!(@ self.$field, $tag, out $($pointer)?);)*
                out
            }
        }

        impl Field for $type {
            fn write(&self, tag: u32, out: &mut Vec<u8>) {
                self.encoded().write(tag, out);
            }
        }
    )*};
    (@ $field:expr, $tag:literal, $out:ident) => { $field.write_or_zero($tag, &mut $out) };
    (@ $field:expr, $tag:literal, $out:ident pointer) => { $field.write($tag, &mut $out) };
}

messages! {
    ObjectMeta {
        1 name, 2 generate_name, 3 namespace, 4 self_link, 5 uid, 6 resource_version, 7 generation,
        8 creation_timestamp pointer, 9 deletion_timestamp pointer, 10 deletion_grace_period_seconds pointer, 11 labels,
        12 annotations, 13 owner_references, 14 finalizers, 17 managed_fields
    }
    OwnerReference { 1 kind, 3 name, 4 uid, 5 api_version, 6 controller pointer, 7 block_owner_deletion pointer }
    ManagedFieldsEntry {
        1 manager, 2 operation, 3 api_version, 4 time pointer, 6 fields_type, 7 fields_v1 pointer, 8 subresource
    }

    Service { 1 metadata, 2 spec, 3 status }
    ServiceSpec {
        1 ports, 2 selector, 3 cluster_ip, 4 type_, 5 external_ips, 7 session_affinity,
        8 load_balancer_ip, 9 load_balancer_source_ranges, 10 external_name,
        11 external_traffic_policy, 12 health_check_node_port, 13 publish_not_ready_addresses,
        14 session_affinity_config pointer, 17 ip_family_policy pointer, 18 cluster_ips, 19 ip_families,
        20 allocate_load_balancer_node_ports pointer, 21 load_balancer_class pointer,
        22 internal_traffic_policy pointer, 23 traffic_distribution pointer
    }
    ServicePort {
        1 name, 2 protocol, 3 port, 4 target_port, 5 node_port, 6 app_protocol pointer
    }
    SessionAffinityConfig { 1 client_ip pointer }
    ClientIPConfig { 1 timeout_seconds pointer }
    ServiceStatus { 1 load_balancer }
    LoadBalancerStatus { 1 ingress }
    LoadBalancerIngress { 1 ip, 2 hostname, 3 ip_mode pointer, 4 ports }
    PortStatus { 1 port, 2 protocol, 3 error pointer }

    EndpointSlice { 1 metadata, 2 endpoints, 3 ports, 4 address_type }
    Endpoint {
        1 addresses, 2 conditions, 3 hostname pointer, 4 target_ref pointer, 5 deprecated_topology, 6 node_name pointer,
        7 zone pointer, 8 hints pointer
    }
    EndpointConditions { 1 ready pointer, 2 serving pointer, 3 terminating pointer }
    EndpointHints { 1 for_zones, 2 for_nodes }
    ForZone { 1 name }
    ForNode { 1 name }
    EndpointPort { 1 name pointer, 2 protocol pointer, 3 port pointer, 4 app_protocol pointer }
    ObjectReference {
        1 kind, 2 namespace, 3 name, 4 uid, 5 api_version, 6 resource_version, 7 field_path
    }

    Node { 1 metadata, 2 spec, 3 status }
    NodeSpec {
        1 pod_cidr, 2 external_id, 3 provider_id, 4 unschedulable, 5 taints, 7 pod_cidrs
    }
    Taint { 1 key, 2 value, 3 effect, 4 time_added pointer }
    NodeStatus { 3 phase, 5 addresses, 8 images }
    NodeAddress { 1 type_, 2 address }
    ContainerImage { 1 names, 2 size_bytes }
}

impl Field for Option<Time> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        if let Some(Time(at)) = self {
            let mut time = Vec::new();
            at.as_second().write(1, &mut time);
            at.subsec_nanosecond().write(2, &mut time);
            time.write(tag, out);
        }
    }
}

impl Field for FieldsV1 {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        let mut fields = Vec::new();
        self.0.to_string().into_bytes().write(1, &mut fields);
        fields.write(tag, out);
    }
}

impl Field for IntOrString {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        let (kind, number, text) = match self {
            Self::Int(number) => (0_i64, *number, String::new()),
            Self::String(text) => (1, 0, text.clone()),
        };
        let mut either = Vec::new();
        kind.write(1, &mut either);
        number.write(2, &mut either);
        text.write(3, &mut either);
        either.write(tag, out);
    }
}
