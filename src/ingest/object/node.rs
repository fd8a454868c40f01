//! Node of the API, without its conditions and images, which are the larger part.

use prost::Message;
use serde::Deserialize;

use super::metadata::Metadata;
use super::or_default;

/// `v1` Node.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct NodeObject {
    /// Name and topology labels.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 1)]
    pub metadata: Metadata,
    /// Pod networks and taints.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 2)]
    pub spec: NodeSpec,
    /// Addresses.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 3)]
    pub status: NodeStatus,
}

/// `spec` of a Node.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// One per family.
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    #[prost(string, repeated, tag = 7)]
    pub pod_cidrs: Vec<String>,
    /// Taints.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, repeated, tag = 5)]
    pub taints: Vec<Taint>,
}

/// `spec.taints[]`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Key; effect and value are not used.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 1)]
    pub key: String,
}

/// `status` of a Node.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Addresses of all types.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, repeated, tag = 5)]
    pub addresses: Vec<NodeAddress>,
}

/// `status.addresses[]`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname` and others.
    #[serde(rename = "type", deserialize_with = "or_default")]
    #[prost(string, tag = 1)]
    pub type_: String,
    /// Address or host name.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 2)]
    pub address: String,
}
