//! Services, EndpointSlices and Nodes of the API, with only the fields that a proxy reads.
//!
//! Own types instead of generated ones: the parser skips unused fields (`managedFields` alone is
//! often half of an object, conditions and images most of a Node), and no field is required, so
//! that an invalid object does not fail the decoding of a whole list. One type serves both
//! encodings, JSON and protobuf.
//!
//! # Invariants
//!
//! Every field may be absent or `null`; both are read as the default of the field. A field is an
//! `Option` only where the API has a pointer: elsewhere protobuf writes defaults that JSON omits.
//!
//! # Source
//!
//! Upstream: k8s.io/api/core/v1/generated.proto, k8s.io/api/discovery/v1/generated.proto,
//! k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto (v1.37)

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use prost::Message;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// Declares types with the attributes that all of them share.
macro_rules! objects {
    ($(
        $(#[$about:meta])*
        pub struct $name:ident { $($(#[$more:meta])* pub $field:ident: $type:ty,)* }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Message, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $name {
            $(
                #[serde(deserialize_with = "or_default")]
                $(#[$more])*
                pub $field: $type,
            )*
        }
    )*};
}

objects! {
    /// `v1` Service.
    pub struct ServiceObject {
        #[prost(message, required, tag = 1)]
        pub metadata: Metadata,
        #[prost(message, required, tag = 2)]
        pub spec: ServiceSpec,
        /// State that a load balancer controller reported.
        #[prost(message, required, tag = 3)]
        pub status: ServiceStatus,
    }

    /// `spec` of a Service.
    pub struct ServiceSpec {
        /// `ClusterIP` (also if absent), `NodePort`, `LoadBalancer` or `ExternalName`.
        #[serde(rename = "type")]
        #[prost(string, tag = 4)]
        pub type_: String,
        /// Empty, `None` or an address.
        #[serde(rename = "clusterIP")]
        #[prost(string, tag = 3)]
        pub cluster_ip: String,
        /// One per family, the primary first.
        #[serde(rename = "clusterIPs")]
        #[prost(string, repeated, tag = 18)]
        pub cluster_ips: Vec<String>,
        /// Families of `clusterIPs`, by index.
        #[prost(string, repeated, tag = 19)]
        pub ip_families: Vec<String>,
        /// `SingleStack` (also if absent), `PreferDualStack` or `RequireDualStack`. The API server
        /// has resolved it; only manifests need it.
        #[prost(string, optional, tag = 17)]
        pub ip_family_policy: Option<String>,
        #[serde(rename = "externalIPs")]
        #[prost(string, repeated, tag = 5)]
        pub external_ips: Vec<String>,
        /// Clients that may use the load balancer.
        #[prost(string, repeated, tag = 9)]
        pub load_balancer_source_ranges: Vec<String>,
        /// `ClientIP` or `None`.
        #[prost(string, tag = 7)]
        pub session_affinity: String,
        #[prost(message, optional, tag = 14)]
        pub session_affinity_config: Option<SessionAffinityConfig>,
        /// `Local` or `Cluster`.
        #[prost(string, tag = 11)]
        pub external_traffic_policy: String,
        /// `Local` or `Cluster`.
        #[prost(string, optional, tag = 22)]
        pub internal_traffic_policy: Option<String>,
        /// Port that load balancers probe for local endpoints.
        #[prost(int64, tag = 12)]
        pub health_check_node_port: i64,
        /// Absent counts as true. The API server has allocated node ports; only manifests need it.
        #[prost(bool, optional, tag = 20)]
        pub allocate_load_balancer_node_ports: Option<bool>,
        #[prost(message, repeated, tag = 1)]
        pub ports: Vec<ServicePortObject>,
    }

    pub struct SessionAffinityConfig {
        #[serde(rename = "clientIP")]
        #[prost(message, optional, tag = 1)]
        pub client_ip: Option<ClientIpConfig>,
    }

    /// `sessionAffinityConfig.clientIP`.
    pub struct ClientIpConfig {
        /// Timeout in seconds; the default of the API is 10800.
        #[prost(int64, optional, tag = 1)]
        pub timeout_seconds: Option<i64>,
    }

    /// `spec.ports[]` of a Service.
    pub struct ServicePortObject {
        /// Absent counts as empty.
        #[prost(string, tag = 1)]
        pub name: String,
        /// Absent counts as `TCP`.
        #[prost(string, tag = 2)]
        pub protocol: String,
        #[prost(int64, tag = 3)]
        pub port: i64,
        /// Port on the node, if allocated.
        #[prost(int64, tag = 5)]
        pub node_port: i64,
    }

    /// `status` of a Service.
    pub struct ServiceStatus {
        #[prost(message, required, tag = 1)]
        pub load_balancer: LoadBalancerStatus,
    }

    /// `status.loadBalancer`.
    pub struct LoadBalancerStatus {
        /// One entry per address.
        #[prost(message, repeated, tag = 1)]
        pub ingress: Vec<Ingress>,
    }

    /// `status.loadBalancer.ingress[]`.
    pub struct Ingress {
        /// Empty for load balancers known by host name.
        #[prost(string, tag = 1)]
        pub ip: String,
        /// `VIP` (also if absent) or `Proxy`.
        #[prost(string, optional, tag = 3)]
        pub ip_mode: Option<String>,
    }

    /// `discovery.k8s.io/v1` EndpointSlice.
    pub struct EndpointSliceObject {
        #[prost(message, required, tag = 1)]
        pub metadata: Metadata,
        /// `IPv4`, `IPv6` or `FQDN`.
        #[prost(string, tag = 4)]
        pub address_type: String,
        #[prost(message, repeated, tag = 2)]
        pub endpoints: Vec<EndpointObject>,
        #[prost(message, repeated, tag = 3)]
        pub ports: Vec<SlicePortObject>,
    }

    /// `endpoints[]` of a slice.
    pub struct EndpointObject {
        /// Only the first is used.
        #[prost(string, repeated, tag = 1)]
        pub addresses: Vec<String>,
        /// Conditions; each has its own default.
        #[prost(message, required, tag = 2)]
        pub conditions: Conditions,
        #[prost(string, optional, tag = 6)]
        pub node_name: Option<String>,
        /// Zones and nodes that should use the endpoint.
        #[prost(message, required, tag = 8)]
        pub hints: Hints,
    }

    /// `conditions` of an endpoint.
    pub struct Conditions {
        /// Absent counts as true.
        #[prost(bool, optional, tag = 1)]
        pub ready: Option<bool>,
        /// Absent counts as true.
        #[prost(bool, optional, tag = 2)]
        pub serving: Option<bool>,
        /// Absent counts as false.
        #[prost(bool, optional, tag = 3)]
        pub terminating: Option<bool>,
    }

    /// `hints` of an endpoint.
    pub struct Hints {
        #[prost(message, repeated, tag = 1)]
        pub for_zones: Vec<Named>,
        #[prost(message, repeated, tag = 2)]
        pub for_nodes: Vec<Named>,
    }

    pub struct Named {
        #[prost(string, tag = 1)]
        pub name: String,
    }

    /// `ports[]` of a slice.
    pub struct SlicePortObject {
        /// Absent makes the port unusable; empty is a name.
        #[prost(string, optional, tag = 1)]
        pub name: Option<String>,
        /// Absent counts as `TCP`.
        #[prost(string, optional, tag = 2)]
        pub protocol: Option<String>,
        /// Absent makes the port unusable.
        #[prost(int64, optional, tag = 3)]
        pub port: Option<i64>,
    }

    /// `v1` Node.
    pub struct NodeObject {
        #[prost(message, required, tag = 1)]
        pub metadata: Metadata,
        #[prost(message, required, tag = 2)]
        pub spec: NodeSpec,
        #[prost(message, required, tag = 3)]
        pub status: NodeStatus,
    }

    /// `spec` of a Node.
    pub struct NodeSpec {
        /// One per family.
        #[serde(rename = "podCIDRs")]
        #[prost(string, repeated, tag = 7)]
        pub pod_cidrs: Vec<String>,
        #[prost(message, repeated, tag = 5)]
        pub taints: Vec<Taint>,
    }

    /// `spec.taints[]`.
    pub struct Taint {
        /// Key; effect and value are not used.
        #[prost(string, tag = 1)]
        pub key: String,
    }

    /// `status` of a Node.
    pub struct NodeStatus {
        #[prost(message, repeated, tag = 5)]
        pub addresses: Vec<NodeAddress>,
    }

    /// `status.addresses[]`.
    pub struct NodeAddress {
        /// `InternalIP`, `ExternalIP`, `Hostname` and others.
        #[serde(rename = "type")]
        #[prost(string, tag = 1)]
        pub type_: String,
        /// Address or host name.
        #[prost(string, tag = 2)]
        pub address: String,
    }
}

impl ServiceSpec {
    /// Reports whether the Service has no cluster IP, as DNS returns its endpoints. In an object
    /// that was not stored yet, the first of `clusterIPs` may be all that is set.
    pub fn is_headless(&self) -> bool {
        let first = self.cluster_ips.first().map_or("", String::as_str);
        let stated = Some(self.cluster_ip.as_str()).filter(|ip| !ip.is_empty());
        stated.unwrap_or(first) == "None"
    }

    /// Reports whether the Service has a cluster IP, or gets one when it is stored: it is neither
    /// headless nor of type `ExternalName`.
    pub fn needs_cluster_ip(&self) -> bool {
        !self.is_headless() && self.type_ != "ExternalName"
    }
}

/// Time that is only tested for being set.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Time {}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self {})
    }
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Unique in its namespace and kind.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 1)]
    pub name: String,
    /// Empty for Nodes.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 3)]
    pub namespace: String,
    /// Version from which a watch resumes.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 6)]
    pub resource_version: String,
    /// Set while finalizers run.
    #[prost(message, optional, tag = 9)]
    pub deletion_timestamp: Option<Time>,
    #[serde(deserialize_with = "entries")]
    #[prost(message, repeated, tag = 11)]
    pub labels: Vec<MapEntry>,
    #[serde(deserialize_with = "entries")]
    #[prost(message, repeated, tag = 12)]
    pub annotations: Vec<MapEntry>,
}

impl Metadata {
    pub(crate) fn object_name(&self) -> ObjectName {
        ObjectName {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        value(&self.labels, key)
    }

    pub fn annotation(&self, key: &str) -> Option<Cow<'_, str>> {
        value(&self.annotations, key)
    }
}

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectName {
    /// Empty for a Node.
    pub namespace: String,
    /// Empty if the object has none, or none that can be decoded.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Escaped, as the name of an object that cannot be decoded is not validated.
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace.escape_debug())?;
        }
        write!(f, "{}", self.name.escape_debug())
    }
}

/// Label or annotation, as bytes: protobuf may hold text that is not valid UTF-8, which matters
/// only in the few that are used.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MapEntry {
    #[prost(bytes = "vec", tag = 1)]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = 2)]
    pub value: Vec<u8>,
}

impl MapEntry {
    /// Returns an entry of texts.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: key.into().into_bytes(),
            value: value.into().into_bytes(),
        }
    }
}

/// Returns the last value of a name, as a map has it.
fn value<'e>(entries: &'e [MapEntry], key: &str) -> Option<Cow<'e, str>> {
    let found = entries
        .iter()
        .rev()
        .find(|entry| entry.key == key.as_bytes());
    found.map(|entry| String::from_utf8_lossy(&entry.value))
}

/// Reads a `null` among labels as an empty string, as Go does.
fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MapEntry>, D::Error> {
    let entries: BTreeMap<String, Option<String>> = or_default(deserializer)?;
    let entries = entries.into_iter();
    Ok(entries
        .map(|(key, value)| MapEntry::new(key, value.unwrap_or_default()))
        .collect())
}

/// Reads a field; `null` counts as its default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
