//! Decodes one document of a manifest, of any kind.
//!
//! The kind may be unknown while a document is read: `kind` may come after the other fields, and a
//! `List` has objects of any kind. An object of a known kind is read as a [`Value`] and decoded
//! from that, so that an invalid field does not end the reading of the document. An `apiVersion`,
//! `kind` or `items` of a wrong type does, and makes the whole file unusable. To limit memory, each
//! object of a list is decoded at once, not after the whole list, unless its kind is still unknown;
//! and an object of a kind that is not used is skipped if its kind comes first.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::{Map, Value};

use super::document_kind::DocumentKind;
use super::validation::{self, FieldPath, FieldProblem, FieldProblemKind, Problems, Validation};
use crate::ingest::{EndpointSliceObject, NodeObject, ObjectName, ServiceObject};
use crate::model::Kind;

/// Decoded document.
#[derive(Debug)]
pub(super) enum ManifestDocument {
    /// `v1` Service.
    Service(Box<ServiceObject>),
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice(Box<EndpointSliceObject>),
    /// `v1` Node, of any name.
    Node(Box<NodeObject>),
    /// List of any kind, in the order of the file.
    List(Vec<ManifestDocument>),
    /// Object without `kind`, which API servers leave out in the items of a typed list, such as
    /// `ServiceList`. It is decoded when the kind of the list is known, which may come after
    /// `items`. Anywhere else such an object is ignored.
    Kindless(Map<String, Value>),
    /// Service, EndpointSlice or Node with a field of a wrong type that the proxy reads. Only with
    /// [`Validation::Lenient`].
    Undecodable(UndecodableObject),
    /// Object with a field that cannot be used. Only with [`Validation::Strict`].
    Invalid(ObjectProblems),
    /// Object that is used without some of its fields. Only with [`Validation::Lenient`].
    Reduced(Box<ManifestDocument>, ObjectProblems),
    /// `v1` Endpoints, which rules do not depend on.
    Endpoints(ObjectName),
    /// Object of another kind.
    Other,
}

/// Returns the name of an object of any kind: in the namespace `default` if it names none, and
/// empty if it has none.
pub(super) fn object_name(object: &Value) -> ObjectName {
    let field = |name| object.get("metadata")?.get(name)?.as_str();
    let namespace = field("namespace").filter(|namespace| !namespace.is_empty());
    ObjectName {
        namespace: namespace.unwrap_or("default").to_owned(),
        name: field("name").unwrap_or_default().to_owned(),
    }
}

/// Name of an object, and the problems for which it is invalid or reduced.
#[derive(Debug, Clone)]
pub(super) struct ObjectProblems {
    /// Kind as written.
    pub(super) kind: String,
    pub(super) name: ObjectName,
    /// At least one.
    pub(super) problems: Vec<FieldProblem>,
}

impl ObjectProblems {
    fn new(kind: &str, object: &Value, problems: Vec<FieldProblem>) -> Self {
        Self {
            kind: kind.to_owned(),
            name: object_name(object),
            problems,
        }
    }
}

/// Decodes an object of a known kind. Fails only if it cannot be read as a [`Value`], as after a
/// syntax error: an object with a field of a wrong type does not affect other objects.
fn decode<'de, D: Deserializer<'de>>(
    kind: DocumentKind,
    deserializer: D,
    validation: Validation,
) -> Result<ManifestDocument, D::Error> {
    let kind = match kind {
        DocumentKind::Ingested(kind) => kind,
        DocumentKind::Endpoints => {
            let object = Value::deserialize(deserializer)?;
            return Ok(ManifestDocument::Endpoints(object_name(&object)));
        }
        DocumentKind::Unserved { kind, version } if validation == Validation::Strict => {
            let object = Value::deserialize(deserializer)?;
            return Ok(unserved(&kind, &version, &object));
        }
        DocumentKind::List(_) | DocumentKind::Unserved { .. } | DocumentKind::Other => {
            return IgnoredAny::deserialize(deserializer).map(|_| ManifestDocument::Other);
        }
    };
    let object = Value::deserialize(deserializer)?;
    let with_name = |problems| ObjectProblems::new(kind.as_str(), &object, problems);
    if validation == Validation::Strict {
        let problems = validation::problems(kind, &object);
        if !problems.is_empty() {
            return Ok(ManifestDocument::Invalid(with_name(problems)));
        }
    }
    let decoded = match kind {
        Kind::Service => decode_as(&object).map(ManifestDocument::Service),
        Kind::EndpointSlice => decode_as(&object).map(ManifestDocument::EndpointSlice),
        Kind::Node => decode_as(&object).map(ManifestDocument::Node),
    };
    Ok(match (decoded, validation) {
        (Ok(document), Validation::Strict) => document,
        (Ok(document), Validation::Lenient) => match validation::ignored_fields(kind, &object) {
            none if none.is_empty() => document,
            some => ManifestDocument::Reduced(Box::new(document), with_name(some)),
        },
        (Err(error), Validation::Strict) => {
            ManifestDocument::Invalid(with_name(vec![FieldProblem {
                path: FieldPath::default(),
                text: error,
                kind: FieldProblemKind::WrongType,
            }]))
        }
        (Err(error), Validation::Lenient) => {
            ManifestDocument::Undecodable(UndecodableObject::new(kind, &object, error))
        }
    })
}

/// Decodes an object; the error names the field.
fn decode_as<T: DeserializeOwned>(object: &Value) -> Result<Box<T>, String> {
    Box::deserialize(object).map_err(|error| {
        // Only errors need the path, and recording it takes time.
        let with_path = serde_path_to_error::deserialize::<_, T>(object).err();
        with_path.map_or_else(|| error.to_string(), |error| error.to_string())
    })
}

fn unserved(kind: &str, version: &str, object: &Value) -> ManifestDocument {
    let mut problems = Problems::default();
    problems.add(
        "kind",
        format_args!("no matches for kind {kind:?} in version {version:?}"),
    );
    ManifestDocument::Invalid(ObjectProblems::new(kind, object, problems.0))
}

/// Object with a field of a wrong type that the proxy reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UndecodableObject {
    pub(super) kind: Kind,
    /// `default` if it has none.
    pub(super) namespace: String,
    /// Empty if it has none.
    pub(super) name: String,
    /// Error of the decoder, with the path of the field.
    pub(super) reason: String,
}

impl UndecodableObject {
    fn new(kind: Kind, object: &Value, reason: String) -> Self {
        let ObjectName { namespace, name } = object_name(object);
        Self {
            kind,
            namespace,
            name,
            reason,
        }
    }
}

/// Decoder of one document.
#[derive(Clone, Copy)]
pub(super) struct DocumentSeed {
    /// Kind of a document that names none: that of the items of its list, such as `ServiceList`.
    default_kind: Option<Kind>,
    validation: Validation,
}

impl DocumentSeed {
    /// Returns the decoder of a document of any kind.
    pub(super) const fn new(validation: Validation) -> Self {
        Self {
            default_kind: None,
            validation,
        }
    }
}

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
        let mut fields = FieldsBeforeKind::new(self);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => fields.api_version = map.next_value()?,
                "kind" => fields.kind = map.next_value()?,
                "items" => fields.items = Some(map.next_value_seed(fields.items_seed())?),
                _ => drop(fields.other.insert(key, map.next_value()?)),
            }
            if let Some(kind) = fields.known_kind() {
                return decode(kind, MapAccessDeserializer::new(map), self.validation);
            }
        }
        fields.into_document()
    }
}

/// Fields of a document that were read before its kind was known.
struct FieldsBeforeKind {
    seed: DocumentSeed,
    api_version: Option<String>,
    kind: Option<String>,
    /// Items, if the document is or may be a list.
    items: Option<Vec<ManifestDocument>>,
    /// Fields other than those above.
    other: Map<String, Value>,
}

impl FieldsBeforeKind {
    fn new(seed: DocumentSeed) -> Self {
        Self {
            seed,
            api_version: None,
            kind: None,
            items: None,
            other: Map::new(),
        }
    }

    fn items_seed(&self) -> ItemsSeed {
        ItemsSeed(DocumentSeed {
            default_kind: self.item_kind(),
            ..self.seed
        })
    }

    fn document_kind(&self) -> Option<DocumentKind> {
        let kind = self.kind.as_deref()?;
        Some(DocumentKind::of(self.api_version.as_deref(), kind))
    }

    fn item_kind(&self) -> Option<Kind> {
        match self.document_kind()? {
            DocumentKind::List(item_kind) => item_kind,
            _ => None,
        }
    }

    /// Returns the kind once `apiVersion` and `kind` were read and no other field came before them:
    /// the rest of the document can then be decoded as an object of it. `None` for a list.
    fn known_kind(&self) -> Option<DocumentKind> {
        if !self.other.is_empty() || self.items.is_some() || self.api_version.is_none() {
            return None;
        }
        self.document_kind()
            .filter(|kind| !matches!(kind, DocumentKind::List(_)))
    }

    fn into_document<E: Error>(self) -> Result<ManifestDocument, E> {
        match (self.document_kind(), self.items) {
            (None, _) => {
                let document = ManifestDocument::Kindless(self.other);
                with_kind(document, self.seed.default_kind, self.seed.validation)
            }
            (Some(DocumentKind::List(item_kind)), items) => {
                let items = items.unwrap_or_default().into_iter();
                let items =
                    items.map(|document| with_kind(document, item_kind, self.seed.validation));
                items.collect::<Result<_, E>>().map(ManifestDocument::List)
            }
            (Some(kind), _) => {
                let object = Value::Object(self.other);
                decode(kind, object, self.seed.validation).map_err(E::custom)
            }
        }
    }
}

/// Decodes an item without `kind` as the kind of the items of its list. In an untyped `List` it
/// stays without one.
fn with_kind<E: Error>(
    document: ManifestDocument,
    item_kind: Option<Kind>,
    validation: Validation,
) -> Result<ManifestDocument, E> {
    match (document, item_kind) {
        (ManifestDocument::Kindless(fields), Some(kind)) => {
            let object = Value::Object(fields);
            decode(DocumentKind::Ingested(kind), object, validation).map_err(E::custom)
        }
        (document, _) => Ok(document),
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
