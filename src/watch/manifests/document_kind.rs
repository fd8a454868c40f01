//! Kind of a document, by its `kind` and `apiVersion`.

use crate::model::Kind;

/// API version of EndpointSlices.
const SLICES_API_VERSION: &str = "discovery.k8s.io/v1";

/// Kind of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DocumentKind {
    /// Object from which rules follow.
    Ingested(Kind),
    /// List, with the kind of its items if its own kind implies one.
    List(Option<Kind>),
    /// `v1` Endpoints.
    Endpoints,
    /// Kind or version that no API server has, and that is probably meant to be one of those above.
    Unserved {
        kind: String,
        version: String,
    },
    Other,
}

impl DocumentKind {
    /// Returns the kind of a document. Another API group may have a kind of the same name, as
    /// Knative has a Service. Without `apiVersion`, the kind decides.
    pub(super) fn of(api_version: Option<&str>, kind: &str) -> Self {
        let unserved = |version: &str| Self::Unserved {
            kind: kind.to_owned(),
            version: version.to_owned(),
        };
        let (document, served_version) = match kind {
            "Service" => (Self::Ingested(Kind::Service), "v1"),
            "Node" => (Self::Ingested(Kind::Node), "v1"),
            "EndpointSlice" => (Self::Ingested(Kind::EndpointSlice), SLICES_API_VERSION),
            "List" => (Self::List(None), "v1"),
            "ServiceList" => (Self::List(Some(Kind::Service)), "v1"),
            "NodeList" => (Self::List(Some(Kind::Node)), "v1"),
            "EndpointSliceList" => (Self::List(Some(Kind::EndpointSlice)), SLICES_API_VERSION),
            "Endpoints" => (Self::Endpoints, "v1"),
            _ => {
                let misspelt = api_version.filter(|version| is_misspelt(kind, version));
                return misspelt.map_or(Self::Other, unserved);
            }
        };
        match api_version {
            None => document,
            Some(version) if version == served_version => document,
            Some(version) if is_kubernetes_group(version) => unserved(version),
            Some(_) => Self::Other,
        }
    }
}

/// Reports whether a kind differs from Service or EndpointSlice by one or two letters. No existing
/// kind of the same version does.
fn is_misspelt(kind: &str, api_version: &str) -> bool {
    let is_near = |right| strsim::osa_distance(right, kind) <= 2;
    match api_version {
        "v1" => is_near("Service"),
        SLICES_API_VERSION => is_near("EndpointSlice"),
        _ => false,
    }
}

/// Reports whether the API group of a version belongs to the Kubernetes project: it has no dot, or
/// is below `k8s.io`. Some of these groups are of CRDs, such as `gateway.networking.k8s.io`; none
/// has a kind that is read here.
fn is_kubernetes_group(api_version: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    !group.contains('.') || group.ends_with(".k8s.io")
}

#[cfg(test)]
#[path = "tests/document_kind.rs"]
mod tests;
