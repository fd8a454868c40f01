//! Reads what kind of object a document of a manifest is, and the name of the object.

use serde_json::Value;

use super::validation::wrong_type;
use crate::ingest::ObjectName;
use crate::model::Kind;

/// Field of a document for which the whole file is unusable.
#[derive(Debug)]
pub(super) struct InvalidField {
    /// Empty for the document itself.
    pub(super) name: &'static str,
    pub(super) reason: String,
}

const SLICES_API_VERSION: &str = "discovery.k8s.io/v1";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DocumentKind {
    /// Object from which rules follow.
    Ingested(Kind),
    /// List, with the kind of its items if its own kind implies one.
    List(Option<Kind>),
    Endpoints,
    /// Kind or version that no API server has, and that is probably meant to be one of those above.
    Unserved {
        kind: String,
        version: String,
    },
    /// Any other, or an object without `kind`.
    Other,
}

impl DocumentKind {
    /// Returns the kind of a document. API servers leave out the kind in the items of a typed list,
    /// such as `ServiceList`: `implied` is the kind of the items of the list around the document.
    pub(super) fn read(document: &Value, implied: Option<Kind>) -> Result<Self, InvalidField> {
        if !document.is_object() {
            return Err(not_an_object(document));
        }
        let api_version = text_field(document, "apiVersion")?;
        Ok(match text_field(document, "kind")? {
            Some(kind) => Self::of(api_version, kind),
            None => implied.map_or(Self::Other, Self::Ingested),
        })
    }

    /// Returns the kind of a document. Another API group may have a kind of the same name, as
    /// Knative has a Service. Without `apiVersion`, the kind decides.
    fn of(api_version: Option<&str>, kind: &str) -> Self {
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

/// Returns a field that must be a text; `None` if it is absent or `null`.
fn text_field<'v>(
    document: &'v Value,
    name: &'static str,
) -> Result<Option<&'v str>, InvalidField> {
    match document.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(InvalidField {
            name,
            reason: format!("{name}: {}", wrong_type("a string", other)),
        }),
    }
}

/// Takes the items out of a list.
pub(super) fn take_items(list: &mut Value) -> Result<Vec<Value>, InvalidField> {
    match list.get_mut("items").map(Value::take) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(InvalidField {
            name: "items",
            reason: format!("items: {}", wrong_type("an array of objects", &other)),
        }),
    }
}

/// Describes a document that is not an object; names the usual reason for an array.
fn not_an_object(document: &Value) -> InvalidField {
    let reason = match document {
        Value::Array(items) => {
            let first = items.first().unwrap_or(&Value::Null);
            if first.get("op").is_some() && first.get("path").is_some() {
                "is a JSON patch, as kustomize uses, and not a manifest".to_owned()
            } else {
                "is a list; give several objects as the `items` of a `kind: List`".to_owned()
            }
        }
        other => wrong_type("a Kubernetes object", other),
    };
    InvalidField { name: "", reason }
}

/// Returns the name of an object: in the namespace `default` if it names none and is not a Node,
/// and empty if it has none.
pub(super) fn object_name(kind: &str, object: &Value) -> ObjectName {
    let field = |name| object.get("metadata")?.get(name)?.as_str();
    let namespace = match field("namespace").unwrap_or_default() {
        _ if kind == Kind::Node.as_str() => "",
        "" => "default",
        namespace => namespace,
    };
    ObjectName {
        namespace: namespace.to_owned(),
        name: field("name").unwrap_or_default().to_owned(),
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
#[path = "tests/document.rs"]
mod tests;
