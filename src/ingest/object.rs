//! The API's objects, with the fields a proxy reads and no others.
//!
//! Own types instead of generated ones because the parser then skips what nobody needs
//! (managedFields alone is often half of an object) without building it, and because nothing in
//! them is required: an odd object is a matter for `ingest`, not a reason to refuse a whole list.
//!
//! # Invariants
//!
//! Every field may be absent or `null`; both read as the field's default.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// `metadata`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Unique in its namespace and kind.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Empty for Nodes.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Where a watch resumes.
    #[serde(deserialize_with = "or_default")]
    pub resource_version: String,
    /// Set while finalizers run.
    pub deletion_timestamp: Option<String>,
    /// Labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, Option<String>>,
}

/// `v1` Service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceObject {
    /// Name and labels.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(deserialize_with = "or_default")]
    pub spec: ServiceSpec,
    /// What a load balancer controller reported.
    #[serde(deserialize_with = "or_default")]
    pub status: ServiceStatus,
}

/// `spec` of a Service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ClusterIP` (also if absent), `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// Empty, `None` or an address.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// One per family, the primary first.
    #[serde(rename = "clusterIPs", deserialize_with = "or_default")]
    pub cluster_ips: Vec<String>,
    /// The families of `clusterIPs`, by index.
    #[serde(deserialize_with = "or_default")]
    pub ip_families: Vec<String>,
    /// `SingleStack` (also if absent), `PreferDualStack` or `RequireDualStack`. Settled by the API
    /// server; only manifests need it.
    pub ip_family_policy: Option<String>,
    /// Extra addresses that nodes answer on.
    #[serde(rename = "externalIPs", deserialize_with = "or_default")]
    pub external_ips: Vec<String>,
    /// Clients admitted to the load balancer.
    #[serde(deserialize_with = "or_default")]
    pub load_balancer_source_ranges: Vec<String>,
    /// `ClientIP` or `None`.
    pub session_affinity: Option<String>,
    /// How long affinity lasts.
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// `Local` or `Cluster`.
    pub external_traffic_policy: Option<String>,
    /// `Local` or `Cluster`.
    pub internal_traffic_policy: Option<String>,
    /// Where load balancers ask for local endpoints.
    pub health_check_node_port: Option<i64>,
    /// The ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ServicePortObject>,
}

/// `sessionAffinityConfig`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SessionAffinityConfig {
    /// The only kind there is.
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIpConfig>,
}

/// `sessionAffinityConfig.clientIP`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientIpConfig {
    /// Seconds; the API's default is 10800.
    pub timeout_seconds: Option<i64>,
}

/// `spec.ports[]` of a Service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePortObject {
    /// Absent counts as empty.
    pub name: Option<String>,
    /// Absent counts as `TCP`.
    pub protocol: Option<String>,
    /// The number on the cluster IP.
    pub port: Option<i64>,
    /// The number on the node, if allocated.
    pub node_port: Option<i64>,
}

/// `status` of a Service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Addresses of the load balancer.
    #[serde(deserialize_with = "or_default")]
    pub load_balancer: LoadBalancerStatus,
}

/// `status.loadBalancer`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus {
    /// One entry per address.
    #[serde(deserialize_with = "or_default")]
    pub ingress: Vec<Ingress>,
}

/// `status.loadBalancer.ingress[]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ingress {
    /// Empty for load balancers known by host name.
    pub ip: Option<String>,
    /// `VIP` (also if absent) or `Proxy`.
    pub ip_mode: Option<String>,
}

/// `discovery.k8s.io/v1` EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSliceObject {
    /// Name, labels and annotations.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: Option<String>,
    /// The endpoints.
    #[serde(deserialize_with = "or_default")]
    pub endpoints: Vec<EndpointObject>,
    /// The ports of every endpoint.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<SlicePortObject>,
}

/// `endpoints[]` of a slice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointObject {
    /// Only the first is used.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<String>,
    /// Absent conditions have defaults of their own.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Conditions,
    /// Where it runs.
    pub node_name: Option<String>,
    /// Whom it is meant for.
    #[serde(deserialize_with = "or_default")]
    pub hints: Hints,
}

/// `conditions` of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Absent counts as true.
    pub ready: Option<bool>,
    /// Absent counts as true.
    pub serving: Option<bool>,
    /// Absent counts as false.
    pub terminating: Option<bool>,
}

/// `hints` of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hints {
    /// Zones.
    #[serde(deserialize_with = "or_default")]
    pub for_zones: Vec<Named>,
    /// Nodes.
    #[serde(deserialize_with = "or_default")]
    pub for_nodes: Vec<Named>,
}

/// An object that is only a name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// `ports[]` of a slice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SlicePortObject {
    /// Absent makes the port unusable; empty is a name.
    pub name: Option<String>,
    /// Absent counts as `TCP`.
    pub protocol: Option<String>,
    /// Absent makes the port unusable.
    pub port: Option<i64>,
}

/// `v1` Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeObject {
    /// Name and topology labels.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// Pod networks and taints.
    #[serde(deserialize_with = "or_default")]
    pub spec: NodeSpec,
    /// Addresses.
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

/// `spec` of a Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// One per family.
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pub pod_cidrs: Vec<String>,
    /// Taints.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// `spec.taints[]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// The key; effect and value do not matter here.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
}

/// `status` of a Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Addresses of all types.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<NodeAddress>,
}

/// `status.addresses[]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname` and others.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: String,
    /// An address or a host name.
    #[serde(deserialize_with = "or_default")]
    pub address: String,
}
