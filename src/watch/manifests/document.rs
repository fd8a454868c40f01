//! One document of a manifest, whatever kind of object it is.
//!
//! Apart because a document must be read before its kind is known for certain: `kind` may come
//! after what it governs, and Lists hold objects of any kind. The usual order (`apiVersion`,
//! `kind`, the rest) is read in one pass; anything else through a tree.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use crate::model::Kind;

/// A document, by what becomes of it.
#[derive(Debug)]
pub(super) enum Document {
    /// `v1` Service.
    Service(Box<ServiceObject>),
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice(Box<EndpointSliceObject>),
    /// `v1` Node, of any name.
    Node(Box<NodeObject>),
    /// A list of any kind, in the order written.
    List(Vec<Document>),
    /// An object without a kind: the item of a list that names its kind last.
    Kindless(Map<String, Value>),
    /// One of the above, but some field is of a type that it cannot be of.
    Unreadable(Unreadable),
    /// Any other object.
    Other,
}

/// The kinds that matter, and what the items of a list are if they do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Service,
    EndpointSlice,
    Node,
    List(Option<Item>),
    Other,
}

/// A kind that a list can be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Service,
    EndpointSlice,
    Node,
}

impl Meaning {
    /// Another group may have a kind of the same name, as Knative has a Service. An object without
    /// a group is taken at its kind.
    fn of(api_version: Option<&str>, kind: &str) -> Self {
        let (meaning, group) = match kind {
            "Service" => (Self::Service, "v1"),
            "Node" => (Self::Node, "v1"),
            "EndpointSlice" => (Self::EndpointSlice, SLICES),
            "List" => (Self::List(None), "v1"),
            "ServiceList" => (Self::List(Some(Item::Service)), "v1"),
            "NodeList" => (Self::List(Some(Item::Node)), "v1"),
            "EndpointSliceList" => (Self::List(Some(Item::EndpointSlice)), SLICES),
            _ => return Self::Other,
        };
        match api_version {
            None => meaning,
            Some(version) if version == group => meaning,
            Some(_) => Self::Other,
        }
    }

    const fn of_item(item: Item) -> Self {
        match item {
            Item::Service => Self::Service,
            Item::EndpointSlice => Self::EndpointSlice,
            Item::Node => Self::Node,
        }
    }

    /// Reads an object of this kind. Only its syntax can fail: an object whose fields have types
    /// that they cannot have is [`Document::Unreadable`], and costs nobody else.
    fn read<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        let kind = match self {
            Self::Service => Kind::Service,
            Self::EndpointSlice => Kind::EndpointSlice,
            Self::Node => Kind::Node,
            Self::List(_) | Self::Other => {
                return IgnoredAny::deserialize(deserializer).map(|_| Document::Other);
            }
        };
        let object = Value::deserialize(deserializer)?;
        let read = match kind {
            Kind::Service => Box::deserialize(&object).map(Document::Service),
            Kind::EndpointSlice => Box::deserialize(&object).map(Document::EndpointSlice),
            Kind::Node => Box::deserialize(&object).map(Document::Node),
        };
        Ok(read
            .unwrap_or_else(|error| Document::Unreadable(Unreadable::new(kind, &object, &error))))
    }
}

/// An object that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) kind: Kind,
    /// `default` if it has none.
    pub(super) namespace: String,
    /// Empty if it has none.
    pub(super) name: String,
    pub(super) reason: String,
}

impl Unreadable {
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

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reader { item: None }.deserialize(deserializer)
    }
}

/// Reads one document; `item` is what it is if it is in a list of one kind.
#[derive(Clone, Copy)]
struct Reader {
    item: Option<Item>,
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        if let Some(item) = self.item {
            return Meaning::of_item(item).read(MapAccessDeserializer::new(map));
        }
        let mut head = Head::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => head.api_version = map.next_value()?,
                "kind" => head.kind = map.next_value()?,
                "items" => head.items = Some(map.next_value_seed(Items(head.item()))?),
                _ => drop(head.early.insert(key, map.next_value()?)),
            }
            if let Some(meaning) = head.settled() {
                return meaning.read(MapAccessDeserializer::new(map));
            }
        }
        head.into_document()
    }
}

/// What is known of a document while its fields come in.
#[derive(Default)]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
    /// Items of what is or may be a list.
    items: Option<Vec<Document>>,
    /// Fields that came before their meaning was known.
    early: Map<String, Value>,
}

impl Head {
    fn meaning(&self) -> Option<Meaning> {
        let kind = self.kind.as_deref()?;
        Some(Meaning::of(self.api_version.as_deref(), kind))
    }

    fn item(&self) -> Option<Item> {
        match self.meaning()? {
            Meaning::List(item) => item,
            _ => None,
        }
    }

    /// The kind, if the remaining fields can be read as such without looking back.
    fn settled(&self) -> Option<Meaning> {
        if !self.early.is_empty() || self.items.is_some() || self.api_version.is_none() {
            return None;
        }
        self.meaning()
            .filter(|meaning| !matches!(meaning, Meaning::List(_)))
    }

    fn into_document<E: Error>(self) -> Result<Document, E> {
        match (self.meaning(), self.items) {
            (None, _) => Ok(Document::Kindless(self.early)),
            (Some(Meaning::List(item)), items) => {
                let items = items.unwrap_or_default().into_iter();
                let items = items.map(|document| with_kind(document, item));
                items.collect::<Result<_, E>>().map(Document::List)
            }
            (Some(meaning), _) => meaning.read(Value::Object(self.early)).map_err(E::custom),
        }
    }
}

/// An item that left its kind to the list, now that the list has said it.
fn with_kind<E: Error>(document: Document, item: Option<Item>) -> Result<Document, E> {
    match (document, item) {
        (Document::Kindless(fields), Some(item)) => {
            let object = Value::Object(fields);
            Meaning::of_item(item).read(object).map_err(E::custom)
        }
        (document, _) => Ok(document),
    }
}

/// Reads the items of a list.
struct Items(Option<Item>);

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Vec<Document>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Document>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of Kubernetes objects")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut documents = Vec::new();
        while let Some(document) = items.next_element_seed(Reader { item: self.0 })? {
            documents.push(document);
        }
        Ok(documents)
    }
}
