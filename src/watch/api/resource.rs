//! The three kinds of objects, and which of them a proxy selects.
//!
//! Listing and watching are generic over these kinds.

use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

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
    /// Type of `k8s_openapi` for these objects, which has the kind, the version and the path.
    type Typed: k8s_openapi::Resource + kube::Resource<DynamicType = ()>;

    /// Kind, as in `kind` of an object.
    const KIND: &'static str = <Self::Typed as k8s_openapi::Resource>::KIND;
    /// API group and version, as in `apiVersion` of an object.
    const API_VERSION: &'static str = <Self::Typed as k8s_openapi::Resource>::API_VERSION;
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
    ($object:ty, $typed:ty, $is_namespaced:literal) => {
        impl Resource for $object {
            type Typed = $typed;

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

resource!(ServiceObject, Service, true);
resource!(EndpointSliceObject, EndpointSlice, true);
resource!(NodeObject, Node, false);

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
