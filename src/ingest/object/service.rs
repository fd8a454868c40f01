//! Service of the API.

use prost::Message;
use serde::Deserialize;

use super::metadata::Metadata;
use super::or_default;

/// `v1` Service.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct ServiceObject {
    /// Name and labels.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 1)]
    pub metadata: Metadata,
    /// Desired state.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 2)]
    pub spec: ServiceSpec,
    /// State that a load balancer controller reported.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 3)]
    pub status: ServiceStatus,
}

/// `spec` of a Service.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ClusterIP` (also if absent), `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type", deserialize_with = "or_default")]
    #[prost(string, tag = 4)]
    pub type_: String,
    /// Empty, `None` or an address.
    #[serde(rename = "clusterIP", deserialize_with = "or_default")]
    #[prost(string, tag = 3)]
    pub cluster_ip: String,
    /// One per family, the primary first.
    #[serde(rename = "clusterIPs", deserialize_with = "or_default")]
    #[prost(string, repeated, tag = 18)]
    pub cluster_ips: Vec<String>,
    /// Families of `clusterIPs`, by index.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, repeated, tag = 19)]
    pub ip_families: Vec<String>,
    /// `SingleStack` (also if absent), `PreferDualStack` or `RequireDualStack`. The API server has
    /// resolved it; only manifests need it.
    #[prost(string, optional, tag = 17)]
    pub ip_family_policy: Option<String>,
    /// External IPs.
    #[serde(rename = "externalIPs", deserialize_with = "or_default")]
    #[prost(string, repeated, tag = 5)]
    pub external_ips: Vec<String>,
    /// Clients that may use the load balancer.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, repeated, tag = 9)]
    pub load_balancer_source_ranges: Vec<String>,
    /// `ClientIP` or `None`.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 7)]
    pub session_affinity: String,
    /// Timeout of the affinity.
    #[prost(message, optional, tag = 14)]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// `Local` or `Cluster`.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 11)]
    pub external_traffic_policy: String,
    /// `Local` or `Cluster`.
    #[prost(string, optional, tag = 22)]
    pub internal_traffic_policy: Option<String>,
    /// Port that load balancers probe for local endpoints.
    #[serde(deserialize_with = "or_default")]
    #[prost(int64, tag = 12)]
    pub health_check_node_port: i64,
    /// Absent counts as true. The API server has allocated node ports; only manifests need it.
    #[prost(bool, optional, tag = 20)]
    pub allocate_load_balancer_node_ports: Option<bool>,
    /// Ports.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, repeated, tag = 1)]
    pub ports: Vec<ServicePortObject>,
}

/// `sessionAffinityConfig`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SessionAffinityConfig {
    /// Configuration of `ClientIP` affinity.
    #[serde(rename = "clientIP")]
    #[prost(message, optional, tag = 1)]
    pub client_ip: Option<ClientIpConfig>,
}

/// `sessionAffinityConfig.clientIP`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientIpConfig {
    /// Timeout in seconds; the default of the API is 10800.
    #[prost(int64, optional, tag = 1)]
    pub timeout_seconds: Option<i64>,
}

/// `spec.ports[]` of a Service.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePortObject {
    /// Absent counts as empty.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 1)]
    pub name: String,
    /// Absent counts as `TCP`.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 2)]
    pub protocol: String,
    /// Port on the cluster IP.
    #[serde(deserialize_with = "or_default")]
    #[prost(int64, tag = 3)]
    pub port: i64,
    /// Port on the node, if allocated.
    #[serde(deserialize_with = "or_default")]
    #[prost(int64, tag = 5)]
    pub node_port: i64,
}

/// `status` of a Service.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Addresses of the load balancer.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 1)]
    pub load_balancer: LoadBalancerStatus,
}

/// `status.loadBalancer`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus {
    /// One entry per address.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, repeated, tag = 1)]
    pub ingress: Vec<Ingress>,
}

/// `status.loadBalancer.ingress[]`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ingress {
    /// Empty for load balancers known by host name.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 1)]
    pub ip: String,
    /// `VIP` (also if absent) or `Proxy`.
    #[prost(string, optional, tag = 3)]
    pub ip_mode: Option<String>,
}
