//! `EndpointSlice` of the API.

use prost::Message;
use serde::Deserialize;

use super::metadata::Metadata;
use super::or_default;

/// `discovery.k8s.io/v1` EndpointSlice.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSliceObject {
    /// Name, labels and annotations.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 1)]
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 4)]
    pub address_type: String,
    /// Endpoints.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, repeated, tag = 2)]
    pub endpoints: Vec<EndpointObject>,
    /// Ports of every endpoint.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, repeated, tag = 3)]
    pub ports: Vec<SlicePortObject>,
}

/// `endpoints[]` of a slice.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointObject {
    /// Only the first is used.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, repeated, tag = 1)]
    pub addresses: Vec<String>,
    /// Conditions; each has its own default.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 2)]
    pub conditions: Conditions,
    /// Node of the endpoint.
    #[prost(string, optional, tag = 6)]
    pub node_name: Option<String>,
    /// Zones and nodes that should use the endpoint.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, required, tag = 8)]
    pub hints: Hints,
}

/// `conditions` of an endpoint.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
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
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hints {
    /// Zones.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, repeated, tag = 1)]
    pub for_zones: Vec<Named>,
    /// Nodes.
    #[serde(deserialize_with = "or_default")]
    #[prost(message, repeated, tag = 2)]
    pub for_nodes: Vec<Named>,
}

/// Object with only a name.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct Named {
    /// Name.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 1)]
    pub name: String,
}

/// `ports[]` of a slice.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
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
