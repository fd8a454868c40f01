//! Decodes one document of a manifest, of any kind.
//!
//! The kind may be unknown while a document is read: `kind` may come after the other fields, and a
//! `List` has objects of any kind. An object is read as a [`Value`] and decoded from that, so that
//! an invalid field does not end the reading of the document. An `apiVersion`, `kind` or `items` of
//! a wrong type does, and makes the whole file unusable. To limit memory, each object of a list is
//! decoded at once, not after the whole list, unless its kind is still unknown.

use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::schema::{FieldPath, FieldProblem, FieldProblemKind, Problems};
use super::validation::{self, Validation};
use crate::ingest::{EndpointSliceObject, NodeObject, ObjectName, ServiceObject};
use crate::model::Kind;

/// Decoded document.
#[derive(Debug)]
pub(super) enum ManifestDocument {
    /// Service, EndpointSlice or Node, or an object that is probably meant to be one.
    Object(ManifestObject),
    /// List of any kind, in the order of the file.
    List(Vec<ManifestDocument>),
    /// Object without `kind`, which API servers leave out in the items of a typed list, such as
    /// `ServiceList`. It is decoded when the kind of the list is known, which may come after
    /// `items`. Anywhere else such an object is ignored.
    Kindless(Map<String, Value>),
    /// `v1` Endpoints, which rules do not depend on.
    Endpoints,
    /// Object of another kind.
    Other,
}

/// Object that is used, has problems, or both.
#[derive(Debug)]
pub(super) struct ManifestObject {
    /// `None` if it is not used.
    pub(super) decoded: Option<DecodedObject>,
    /// Kind as written.
    pub(super) kind: String,
    pub(super) name: ObjectName,
    /// Reasons for which it is not used, or fields that are ignored.
    pub(super) problems: Vec<FieldProblem>,
    /// All of its fields, if [`ParseOptions::keeps_written`].
    pub(super) written: Option<Value>,
}

/// Object from which rules follow.
#[derive(Debug)]
pub(super) enum DecodedObject {
    /// `v1` Service.
    Service(Box<ServiceObject>),
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice(Box<EndpointSliceObject>),
    /// `v1` Node, of any name.
    Node(Box<NodeObject>),
}

/// Way in which documents are decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParseOptions {
    pub(super) validation: Validation,
    /// Keep Services and EndpointSlices with all of their fields.
    pub(super) keeps_written: bool,
}

impl ParseOptions {
    /// Options of the daemon.
    pub(super) const LENIENT: Self = Self {
        validation: Validation::Lenient,
        keeps_written: false,
    };
}

/// Returns the name of an object: in the namespace `default` if it names none and is not a Node,
/// and empty if it has none.
fn object_name(kind: &str, object: &Value) -> ObjectName {
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

/// Decodes an object of a known kind. An object with a field of a wrong type does not affect other
/// objects.
fn decode(kind: DocumentKind, object: Value, options: ParseOptions) -> ManifestDocument {
    match kind {
        DocumentKind::Ingested(kind) => {
            ManifestDocument::Object(ManifestObject::decode(kind, object, options))
        }
        DocumentKind::Unserved { kind, version } if options.validation == Validation::Strict => {
            let mut problems = Problems::default();
            problems.add(
                "kind",
                format_args!("no matches for kind {kind:?} in version {version:?}"),
            );
            ManifestDocument::Object(ManifestObject {
                decoded: None,
                name: object_name(&kind, &object),
                kind,
                problems: problems.0,
                written: None,
            })
        }
        DocumentKind::Endpoints => ManifestDocument::Endpoints,
        DocumentKind::List(_) | DocumentKind::Unserved { .. } | DocumentKind::Other => {
            ManifestDocument::Other
        }
    }
}

impl ManifestObject {
    fn decode(kind: Kind, object: Value, options: ParseOptions) -> Self {
        let mut problems = match options.validation {
            Validation::Strict => validation::problems(kind, &object),
            Validation::Lenient => Vec::new(),
        };
        let mut decoded = None;
        if problems.is_empty() {
            match DecodedObject::decode(kind, &object) {
                Ok(used) => decoded = Some(used),
                Err(text) => problems.push(FieldProblem {
                    path: FieldPath::default(),
                    text,
                    kind: FieldProblemKind::WrongType,
                }),
            }
        }
        if options.validation == Validation::Lenient && decoded.is_some() {
            problems = validation::ignored_fields(kind, &object);
        }
        Self {
            decoded,
            kind: kind.as_str().to_owned(),
            name: object_name(kind.as_str(), &object),
            problems,
            written: options.keeps_written.then_some(object),
        }
    }
}

impl DecodedObject {
    fn decode(kind: Kind, object: &Value) -> Result<Self, String> {
        match kind {
            Kind::Service => decode_as(object).map(Self::Service),
            Kind::EndpointSlice => decode_as(object).map(Self::EndpointSlice),
            Kind::Node => decode_as(object).map(Self::Node),
        }
    }
}

/// Decodes an object; the error names the field.
fn decode_as<T: DeserializeOwned>(object: &Value) -> Result<Box<T>, String> {
    Box::deserialize(object).map_err(|error| {
        // Only errors need the path, and recording it takes time.
        let with_path = serde_path_to_error::deserialize::<_, T>(object).err();
        with_path.map_or_else(|| error.to_string(), |error| error.to_string())
    })
}

/// Decoder of one document.
#[derive(Clone, Copy)]
pub(super) struct DocumentSeed(pub(super) ParseOptions);

impl<'de> DeserializeSeed<'de> for DocumentSeed {
    type Value = ManifestDocument;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<ManifestDocument, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed {
    type Value = ManifestDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    /// Fails for an array, with an error that names the usual reason for one.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ManifestDocument, A::Error> {
        let first: Value = items.next_element()?.unwrap_or_default();
        Err(
            if first.get("op").is_some() && first.get("path").is_some() {
                A::Error::custom("is a JSON patch, as kustomize uses, and not a manifest")
            } else {
                A::Error::custom("is a list; give several objects as the `items` of a `kind: List`")
            },
        )
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ManifestDocument, A::Error> {
        let Self(options) = self;
        let (mut api_version, mut kind, mut items) = (None::<String>, None::<String>, None);
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let may_be_list = kind.as_ref().is_none_or(|kind| kind.ends_with("List"));
            match key.as_str() {
                "apiVersion" => api_version = map.next_value()?,
                "kind" => kind = map.next_value()?,
                "items" if may_be_list => items = Some(map.next_value_seed(ItemsSeed(self))?),
                _ => drop(fields.insert(key, map.next_value()?)),
            }
        }
        let kind = kind.map(|kind| DocumentKind::of(api_version.as_deref(), &kind));
        Ok(match kind {
            None => ManifestDocument::Kindless(fields),
            Some(DocumentKind::List(item_kind)) => {
                let items = items.unwrap_or_default().into_iter();
                let items = items.map(|item| with_kind(item, item_kind, options));
                ManifestDocument::List(items.collect())
            }
            Some(kind) => decode(kind, Value::Object(fields), options),
        })
    }
}

/// Decodes an item without `kind` as the kind of the items of its list. In an untyped `List` it
/// stays without one.
fn with_kind(
    document: ManifestDocument,
    item_kind: Option<Kind>,
    options: ParseOptions,
) -> ManifestDocument {
    match (document, item_kind) {
        (ManifestDocument::Kindless(fields), Some(kind)) => {
            decode(DocumentKind::Ingested(kind), Value::Object(fields), options)
        }
        (document, _) => document,
    }
}

/// Decoder of the items of a list.
struct ItemsSeed(DocumentSeed);

impl<'de> DeserializeSeed<'de> for ItemsSeed {
    type Value = Vec<ManifestDocument>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed {
    type Value = Vec<ManifestDocument>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of Kubernetes objects")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut documents = Vec::new();
        while let Some(document) = items.next_element_seed(self.0)? {
            documents.push(document);
        }
        Ok(documents)
    }
}

/// API version of EndpointSlices.
const SLICES_API_VERSION: &str = "discovery.k8s.io/v1";

/// Kind of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DocumentKind {
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
