//! Decodes one document of a manifest, of any kind.
//!
//! The kind may be unknown while a document is read: `kind` may come after the other fields, and a
//! `List` has objects of any kind. The usual order (`apiVersion`, `kind`, the rest) is decoded in
//! one pass; anything else through a tree.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
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
    /// Object without `kind`. API servers leave it out in the items of a typed list, like
    /// `ServiceList`; if the list names its own kind only after `items`, an item is decoded when
    /// that kind is known. Anywhere else the object is ignored.
    Kindless(Map<String, Value>),
    /// Object of the kinds above with a field of a wrong type.
    Undecodable(UndecodableObject),
    /// Object of another kind.
    Other,
}

/// Kind of a document. A list has the kind of its items, if its own kind implies one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentKind {
    Service,
    EndpointSlice,
    Node,
    List(Option<ItemKind>),
    Other,
}

/// Kind of the items of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Service,
    EndpointSlice,
    Node,
}

impl DocumentKind {
    /// Returns the kind of a document. Another API group may have a kind of the same name, as
    /// Knative has a Service. Without `apiVersion`, the kind decides.
    fn of(api_version: Option<&str>, kind: &str) -> Self {
        let (document, group) = match kind {
            "Service" => (Self::Service, "v1"),
            "Node" => (Self::Node, "v1"),
            "EndpointSlice" => (Self::EndpointSlice, SLICES),
            "List" => (Self::List(None), "v1"),
            "ServiceList" => (Self::List(Some(ItemKind::Service)), "v1"),
            "NodeList" => (Self::List(Some(ItemKind::Node)), "v1"),
            "EndpointSliceList" => (Self::List(Some(ItemKind::EndpointSlice)), SLICES),
            _ => return Self::Other,
        };
        match api_version {
            None => document,
            Some(version) if version == group => document,
            Some(_) => Self::Other,
        }
    }

    const fn of_item(item: ItemKind) -> Self {
        match item {
            ItemKind::Service => Self::Service,
            ItemKind::EndpointSlice => Self::EndpointSlice,
            ItemKind::Node => Self::Node,
        }
    }

    /// Decodes an object of this kind. Only a syntax error fails: an object with a field of a
    /// wrong type is [`ManifestDocument::Undecodable`], and does not affect others.
    fn decode<'de, D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<ManifestDocument, D::Error> {
        let kind = match self {
            Self::Service => Kind::Service,
            Self::EndpointSlice => Kind::EndpointSlice,
            Self::Node => Kind::Node,
            Self::List(_) | Self::Other => {
                return IgnoredAny::deserialize(deserializer).map(|_| ManifestDocument::Other);
            }
        };
        let object = Value::deserialize(deserializer)?;
        let decoded = match kind {
            Kind::Service => Box::deserialize(&object).map(ManifestDocument::Service),
            Kind::EndpointSlice => Box::deserialize(&object).map(ManifestDocument::EndpointSlice),
            Kind::Node => Box::deserialize(&object).map(ManifestDocument::Node),
        };
        Ok(decoded.unwrap_or_else(|error| {
            ManifestDocument::Undecodable(UndecodableObject::new(kind, &object, &error))
        }))
    }
}

/// Object with a field of a wrong type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UndecodableObject {
    pub(super) kind: Kind,
    /// `default` if it has none.
    pub(super) namespace: String,
    /// Empty if it has none.
    pub(super) name: String,
    pub(super) reason: String,
}

impl UndecodableObject {
    fn new(kind: Kind, object: &Value, error: &serde_json::Error) -> Self {
        let field = |name| object.get("metadata")?.get(name)?.as_str();
        Self {
            kind,
            namespace: field("namespace").unwrap_or("default").to_owned(),
            name: field("name").unwrap_or_default().to_owned(),
            reason: error.to_string(),
        }
    }
}

const SLICES: &str = "discovery.k8s.io/v1";

impl<'de> Deserialize<'de> for ManifestDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DocumentSeed { item: None }.deserialize(deserializer)
    }
}

/// Decoder of one document; `item` is its kind if it is in a list of one kind.
#[derive(Clone, Copy)]
struct DocumentSeed {
    item: Option<ItemKind>,
}

impl<'de> DeserializeSeed<'de> for DocumentSeed {
    type Value = ManifestDocument;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<ManifestDocument, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed {
    type Value = ManifestDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ManifestDocument, A::Error> {
        if let Some(item) = self.item {
            return DocumentKind::of_item(item).decode(MapAccessDeserializer::new(map));
        }
        let mut head = Head::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => head.api_version = map.next_value()?,
                "kind" => head.kind = map.next_value()?,
                "items" => head.items = Some(map.next_value_seed(ItemsSeed(head.item()))?),
                _ => drop(head.early.insert(key, map.next_value()?)),
            }
            if let Some(kind) = head.known_kind() {
                return kind.decode(MapAccessDeserializer::new(map));
            }
        }
        head.into_document()
    }
}

/// Fields of a document that were read before its kind was known.
#[derive(Default)]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
    /// Items, if the document is or may be a list.
    items: Option<Vec<ManifestDocument>>,
    /// Other fields.
    early: Map<String, Value>,
}

impl Head {
    fn document_kind(&self) -> Option<DocumentKind> {
        let kind = self.kind.as_deref()?;
        Some(DocumentKind::of(self.api_version.as_deref(), kind))
    }

    fn item(&self) -> Option<ItemKind> {
        match self.document_kind()? {
            DocumentKind::List(item) => item,
            _ => None,
        }
    }

    /// Returns the kind if the remaining fields can be decoded as such in one pass.
    fn known_kind(&self) -> Option<DocumentKind> {
        if !self.early.is_empty() || self.items.is_some() || self.api_version.is_none() {
            return None;
        }
        self.document_kind()
            .filter(|kind| !matches!(kind, DocumentKind::List(_)))
    }

    fn into_document<E: Error>(self) -> Result<ManifestDocument, E> {
        match (self.document_kind(), self.items) {
            (None, _) => Ok(ManifestDocument::Kindless(self.early)),
            (Some(DocumentKind::List(item)), items) => {
                let items = items.unwrap_or_default().into_iter();
                let items = items.map(|document| with_kind(document, item));
                items.collect::<Result<_, E>>().map(ManifestDocument::List)
            }
            (Some(kind), _) => kind.decode(Value::Object(self.early)).map_err(E::custom),
        }
    }
}

/// Decodes an item without `kind`, now that the kind of the list is known. An item of an untyped
/// `List` stays without one.
fn with_kind<E: Error>(
    document: ManifestDocument,
    item: Option<ItemKind>,
) -> Result<ManifestDocument, E> {
    match (document, item) {
        (ManifestDocument::Kindless(fields), Some(item)) => {
            let object = Value::Object(fields);
            DocumentKind::of_item(item)
                .decode(object)
                .map_err(E::custom)
        }
        (document, _) => Ok(document),
    }
}

/// Decoder of the items of a list.
struct ItemsSeed(Option<ItemKind>);

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
        while let Some(document) = items.next_element_seed(DocumentSeed { item: self.0 })? {
            documents.push(document);
        }
        Ok(documents)
    }
}
