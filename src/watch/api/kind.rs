//! The three kinds of objects, where they are, and which of them concern a proxy.
//!
//! Listing and watching know neither Services nor any other kind.

use std::marker::PhantomData;

use crate::ingest::{EndpointSliceObject, Metadata, NodeObject, ServiceObject};

use super::object::ObjectName;
use super::raw::Spoken;

/// A kind of object of the API.
pub trait Kind: Spoken + 'static {
    /// As messages spell it.
    const NAME: &'static str;
    /// Its API group and version, as messages spell it.
    const API_VERSION: &'static str;
    /// The beginning of an object as API servers write JSON.
    const JSON_START: &'static str;
    /// The collection of all namespaces.
    const PATH: &'static str;
    /// Reports whether its objects are in namespaces.
    const IS_NAMESPACED: bool;

    /// Its `metadata`.
    fn metadata(&self) -> &Metadata;

    /// Its `metadata`.
    fn metadata_mut(&mut self) -> &mut Metadata;

    /// An object of which only the name is known.
    fn named(name: &ObjectName) -> Self {
        let mut object = Self::default();
        object.metadata_mut().namespace.clone_from(&name.namespace);
        object.metadata_mut().name.clone_from(&name.name);
        object
    }
}

macro_rules! kind {
    ($object:ty, $name:literal, $version:literal, $path:literal, $is_namespaced:literal) => {
        impl Kind for $object {
            const NAME: &'static str = $name;
            const API_VERSION: &'static str = $version;
            const JSON_START: &'static str = concat!(
                r#"{"kind":""#,
                $name,
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

kind!(ServiceObject, "Service", "v1", "/api/v1/services", true);
kind!(
    EndpointSliceObject,
    "EndpointSlice",
    "discovery.k8s.io/v1",
    "/apis/discovery.k8s.io/v1/endpointslices",
    true
);
kind!(NodeObject, "Node", "v1", "/api/v1/nodes", false);

/// Which objects of a kind the server is asked for.
///
/// Upstream: cmd/kube-proxy/app/server.go, `Run` (v1.36)
#[derive(Debug, Clone)]
pub struct Selector<K> {
    pub(super) labels: Option<&'static str>,
    pub(super) fields: Option<String>,
    kind: PhantomData<fn() -> K>,
}

impl Selector<ServiceObject> {
    /// Services that are not for another proxy and have a cluster IP.
    pub fn services() -> Self {
        Self {
            labels: Some("!service.kubernetes.io/service-proxy-name"),
            fields: Some("spec.clusterIP!=None".to_owned()),
            kind: PhantomData,
        }
    }
}

impl Selector<EndpointSliceObject> {
    /// Slices that do not belong to a headless Service.
    pub fn slices() -> Self {
        Self {
            labels: Some("!service.kubernetes.io/headless"),
            fields: None,
            kind: PhantomData,
        }
    }
}

impl Selector<NodeObject> {
    /// This node only.
    pub fn node(name: &str) -> Self {
        Self {
            labels: None,
            fields: Some(format!("metadata.name={name}")),
            kind: PhantomData,
        }
    }
}
