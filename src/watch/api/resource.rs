//! The three kinds of objects, their paths, and which of them a proxy selects.
//!
//! Listing and watching are generic over these kinds.

use std::fmt;
use std::marker::PhantomData;

use super::framing::Decodable;
use crate::ingest::{EndpointSliceObject, Metadata, NodeObject, ServiceObject};

/// Namespace and name of an object; the namespace of a Node is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectName {
    /// Empty for objects without a namespace.
    pub namespace: String,
    /// Empty only in an object that cannot be decoded.
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

/// A kind of objects of the API.
pub trait Resource: Decodable + 'static {
    /// Kind, as in `kind` of an object.
    const KIND: &'static str;
    /// API group and version, as in `apiVersion` of an object.
    const API_VERSION: &'static str;
    /// Beginning of an object as API servers write JSON.
    const JSON_START: &'static str;
    /// Path of the objects of all namespaces.
    const PATH: &'static str;
    /// `true` if its objects are in namespaces.
    const IS_NAMESPACED: bool;

    /// Returns `metadata` of the object.
    fn metadata(&self) -> &Metadata;

    /// Returns `metadata` of the object, to change it.
    fn metadata_mut(&mut self) -> &mut Metadata;

    /// Returns an object of which only the name is known.
    fn named(name: &ObjectName) -> Self {
        let mut object = Self::default();
        object.metadata_mut().namespace.clone_from(&name.namespace);
        object.metadata_mut().name.clone_from(&name.name);
        object
    }
}

macro_rules! resource {
    ($object:ty, $kind:literal, $version:literal, $path:literal, $is_namespaced:literal) => {
        impl Resource for $object {
            const KIND: &'static str = $kind;
            const API_VERSION: &'static str = $version;
            const JSON_START: &'static str = concat!(
                r#"{"kind":""#,
                $kind,
                r#"","apiVersion":""#,
                $version,
                r#"","#
            );
            const PATH: &'static str = $path;
            const IS_NAMESPACED: bool = $is_namespaced;

            fn metadata(&self) -> &Metadata {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Metadata {
                &mut self.metadata
            }
        }
    };
}

resource!(ServiceObject, "Service", "v1", "/api/v1/services", true);
resource!(
    EndpointSliceObject,
    "EndpointSlice",
    "discovery.k8s.io/v1",
    "/apis/discovery.k8s.io/v1/endpointslices",
    true
);
resource!(NodeObject, "Node", "v1", "/api/v1/nodes", false);

/// Label and field selectors of the lists and watches of one kind.
///
/// Upstream: cmd/kube-proxy/app/server.go, `Run` (v1.36)
#[derive(Debug, Clone)]
pub struct Selector<K> {
    pub(super) labels: Option<&'static str>,
    pub(super) fields: Option<String>,
    kind: PhantomData<fn() -> K>,
}

impl Selector<ServiceObject> {
    /// Selects Services that are not for another proxy and have a cluster IP.
    pub fn services() -> Self {
        Self {
            labels: Some("!service.kubernetes.io/service-proxy-name"),
            fields: Some("spec.clusterIP!=None".to_owned()),
            kind: PhantomData,
        }
    }
}

impl Selector<EndpointSliceObject> {
    /// Selects EndpointSlices that do not belong to a headless Service.
    pub fn slices() -> Self {
        Self {
            labels: Some("!service.kubernetes.io/headless"),
            fields: None,
            kind: PhantomData,
        }
    }
}

impl Selector<NodeObject> {
    /// Selects the Node with this name.
    pub fn node(name: &str) -> Self {
        Self {
            labels: None,
            fields: Some(format!("metadata.name={name}")),
            kind: PhantomData,
        }
    }
}
