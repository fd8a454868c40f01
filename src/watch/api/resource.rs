//! The kinds of objects, which objects of each kind kube-proxy selects, and the URIs of their lists
//! and watches.
//!
//! # Source
//!
//! Upstream: cmd/kube-proxy/app/server.go, `Run` (v1.37)
//!
//! KEP: kep.k8s.io/3157 (WatchList, or streaming lists)

use std::marker::PhantomData;
use std::time::Duration;

use form_urlencoded::byte_serialize;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource as _;
use prost::Message;
use serde::de::DeserializeOwned;

use crate::ingest::{EndpointSliceObject, Metadata, NodeObject, ServiceObject};

/// Type that can be decoded from both encodings. Trimmed to the fields that are used: others are
/// skipped.
pub trait Decodable: DeserializeOwned + Message + Default {}

impl<T: DeserializeOwned + Message + Default> Decodable for T {}

/// Kind of objects of the API.
pub trait Resource: Decodable + 'static {
    /// Type of `k8s_openapi` for these objects, which has the kind, the version and the path.
    type Typed: k8s_openapi::Resource + kube::Resource<DynamicType = ()>;

    /// Kind, as in `kind` of an object.
    const KIND: &'static str = <Self::Typed as k8s_openapi::Resource>::KIND;
    /// API group and version, as in `apiVersion` of an object.
    const API_VERSION: &'static str = <Self::Typed as k8s_openapi::Resource>::API_VERSION;
    /// Objects of the kind are in namespaces.
    const IS_NAMESPACED: bool;

    fn metadata(&self) -> &Metadata;
}

macro_rules! resource {
    ($object:ty, $typed:ty, $is_namespaced:literal) => {
        impl Resource for $object {
            type Typed = $typed;

            const IS_NAMESPACED: bool = $is_namespaced;

            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        }
    };
}

pub(super) use resource;

resource!(ServiceObject, Service, true);
resource!(EndpointSliceObject, EndpointSlice, true);
resource!(NodeObject, Node, false);

/// Label and field selectors of the lists and watches of one kind.
#[derive(Debug, Clone)]
pub struct Selector<K> {
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Selector<K> {
    pub(super) fn new(labels: Option<&str>, fields: Option<&str>) -> Self {
        Self {
            labels: labels.map(str::to_owned),
            fields: fields.map(str::to_owned),
            kind: PhantomData,
        }
    }
}

impl Selector<ServiceObject> {
    /// Selects Services that are not for another proxy and not headless. Those of type
    /// `ExternalName`, which have no cluster IP, are selected as well.
    pub fn services() -> Self {
        Self::new(Some(FOR_THIS_PROXY), Some("spec.clusterIP!=None"))
    }

    /// Selects those with these labels as well, in the syntax of kubectl.
    #[cfg(feature = "tools")]
    pub(crate) fn services_with(labels: &str) -> Self {
        Self {
            labels: Some(format!("{FOR_THIS_PROXY},{labels}")),
            ..Self::services()
        }
    }
}

impl Selector<EndpointSliceObject> {
    /// Selects EndpointSlices that do not belong to a headless Service.
    pub fn slices() -> Self {
        Self::new(Some("!service.kubernetes.io/headless"), None)
    }
}

impl Selector<NodeObject> {
    /// Selects the Node with this name.
    pub fn node(name: &str) -> Self {
        Self::new(None, Some(&format!("metadata.name={name}")))
    }
}

const FOR_THIS_PROXY: &str = "!service.kubernetes.io/service-proxy-name";

/// Returns the URI of a page of a LIST.
///
/// Without `resourceVersion`, the server returns the most recent state, never an older one than a
/// watch has sent.
///
/// Differs from upstream: client-go starts with `resourceVersion=0`, for which the server may
/// return a cached state that is older than the rules of this node.
pub(super) fn list_uri<K: Resource>(
    selector: &Selector<K>,
    limit: u32,
    continue_token: Option<&str>,
) -> String {
    let mut uri = uri_with_selector(selector);
    push_parameter(&mut uri, "limit", &limit.to_string());
    if let Some(token) = continue_token {
        push_parameter(&mut uri, "continue", token);
    }
    uri
}

/// Returns the URI of a watch that the server ends after `timeout`: of the events after a resource
/// version, or of a WatchList, which has none for the same reason as a LIST.
pub(super) fn watch_uri<K: Resource>(
    selector: &Selector<K>,
    resume_from: Option<&str>,
    timeout: Duration,
) -> String {
    let mut uri = uri_with_selector(selector);
    push_parameter(&mut uri, "watch", "true");
    push_parameter(&mut uri, "allowWatchBookmarks", "true");
    push_parameter(&mut uri, "timeoutSeconds", &timeout.as_secs().to_string());
    if let Some(version) = resume_from {
        push_parameter(&mut uri, "resourceVersion", version);
    } else {
        push_parameter(&mut uri, "sendInitialEvents", "true");
        push_parameter(&mut uri, "resourceVersionMatch", "NotOlderThan");
    }
    uri
}

fn uri_with_selector<K: Resource>(selector: &Selector<K>) -> String {
    let mut uri = K::Typed::url_path(&(), None);
    if let Some(labels) = &selector.labels {
        push_parameter(&mut uri, "labelSelector", labels);
    }
    if let Some(fields) = &selector.fields {
        push_parameter(&mut uri, "fieldSelector", fields);
    }
    uri
}

fn push_parameter(uri: &mut String, key: &str, value: &str) {
    uri.push(if uri.contains('?') { '&' } else { '?' });
    uri.push_str(key);
    uri.push('=');
    uri.extend(byte_serialize(value.as_bytes()));
}
