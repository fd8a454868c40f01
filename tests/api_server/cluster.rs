//! A small cluster that answers as an API server does: lists in pages, streams and watches that
//! resume, in both encodings. What becomes of an answer on its way is up to each test.

use std::collections::BTreeMap;

use deltaproxy::testing::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use prost::Message;
use serde_json::{Value, json};

use super::scripted::{Asked, Piece, Reply, event, field, typed};

/// The kinds that a proxy asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Service,
    Slice,
    Node,
}

impl Kind {
    pub fn of(asked: &Asked) -> Self {
        match asked.path.as_str() {
            "/api/v1/services" => Self::Service,
            "/apis/discovery.k8s.io/v1/endpointslices" => Self::Slice,
            "/api/v1/nodes" => Self::Node,
            other => panic!("{other}"),
        }
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Service => ("v1", "Service"),
            Self::Slice => ("discovery.k8s.io/v1", "EndpointSlice"),
            Self::Node => ("v1", "Node"),
        }
    }
}

/// Encoding of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Json,
    Protobuf,
}

#[derive(Debug, Clone)]
struct Change {
    version: u64,
    kind: Kind,
    what: &'static str,
    object: Value,
}

/// Every state that there ever was, as changes.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    version: u64,
    history: Vec<Change>,
    /// A watch from before this has expired.
    oldest: u64,
}

pub fn service(name: &str, port: u16) -> Value {
    let number = name.bytes().map(u16::from).sum::<u16>() % 250;
    json!({
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"clusterIP": format!("10.96.0.{number}"), "ports": [{"name": "p", "protocol": "TCP", "port": port}]},
    })
}

/// The endpoints of a Service.
pub fn slice(name: &str, last: u8) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [format!("10.180.0.{last}")]}],
        "ports": [{"name": "p", "protocol": "TCP", "port": 8080}],
    })
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

impl Cluster {
    /// A Node, and a Service with an endpoint.
    pub fn small() -> Self {
        let mut cluster = Self::default();
        cluster.set(Kind::Node, json!({"metadata": {"name": "here"}}));
        cluster.set(Kind::Service, service("still", 80));
        cluster.set(Kind::Slice, slice("still", 1));
        cluster
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Creates or changes an object.
    pub fn set(&mut self, kind: Kind, object: Value) {
        let exists = self.last(kind, name(&object)).is_some();
        self.change(kind, if exists { "MODIFIED" } else { "ADDED" }, object);
    }

    /// Deletes one, if it is there.
    pub fn delete(&mut self, kind: Kind, name: &str) {
        if let Some(object) = self.last(kind, name) {
            self.change(kind, "DELETED", object);
        }
    }

    /// An object as it is.
    fn last(&self, kind: Kind, named: &str) -> Option<Value> {
        let is_it = |change: &&Change| change.kind == kind && name(&change.object) == named;
        let last = self.history.iter().rfind(is_it)?;
        (last.what != "DELETED").then(|| last.object.clone())
    }

    fn change(&mut self, kind: Kind, what: &'static str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let version = self.version;
        self.history.push(Change {
            version,
            kind,
            what,
            object,
        });
    }

    /// Forgets what changed so far, as a server that is restarted.
    pub fn forget(&mut self) {
        self.oldest = self.version;
    }

    fn objects(&self, kind: Kind, at: u64) -> BTreeMap<String, Value> {
        let mut objects = BTreeMap::new();
        let until = |change: &&Change| change.kind == kind && change.version <= at;
        for change in self.history.iter().filter(until) {
            let name = name(&change.object).to_owned();
            match change.what {
                "DELETED" => objects.remove(&name),
                _ => objects.insert(name, change.object.clone()),
            };
        }
        objects
    }

    /// The answer of a server that is all right; a watch stays open.
    pub fn answer(&self, asked: &Asked, written: Written) -> Reply {
        let kind = Kind::of(asked);
        if !asked.is_watch() {
            return reply(written, vec![Piece::Bytes(self.page(kind, asked, written))]);
        }
        let messages = match asked.value("resourceVersion") {
            None => self.initial(kind, written),
            Some(after) => {
                let after: u64 = after.parse().unwrap();
                if after < self.oldest {
                    return expired();
                }
                self.changes(kind, after, written)
            }
        };
        let mut pieces: Vec<Piece> = messages.into_iter().map(Piece::Bytes).collect();
        pieces.push(Piece::Hang);
        reply(written, pieces)
    }

    /// The messages of a stream of the whole state.
    pub fn initial(&self, kind: Kind, written: Written) -> Vec<Vec<u8>> {
        let objects = self.objects(kind, self.version);
        let added = objects
            .values()
            .map(|object| message(written, kind, "ADDED", object));
        let mut messages: Vec<_> = added.collect();
        let end = json!({"k8s.io/initial-events-end": "true"});
        messages.push(self.bookmark(kind, &end, written));
        messages
    }

    /// The messages of a watch after a version, and a bookmark.
    pub fn changes(&self, kind: Kind, after: u64, written: Written) -> Vec<Vec<u8>> {
        let first = self
            .history
            .partition_point(|change| change.version <= after);
        let changes = self.history.iter().skip(first);
        let changes = changes.filter(|change| change.kind == kind);
        let mut messages: Vec<_> = changes
            .map(|change| message(written, kind, change.what, &change.object))
            .collect();
        messages.push(self.bookmark(kind, &json!({}), written));
        messages
    }

    fn bookmark(&self, kind: Kind, annotations: &Value, written: Written) -> Vec<u8> {
        let metadata =
            json!({"resourceVersion": self.version.to_string(), "annotations": annotations});
        message(written, kind, "BOOKMARK", &json!({"metadata": metadata}))
    }

    /// A list in one page.
    pub fn page_of(&self, kind: Kind, written: Written) -> Vec<u8> {
        let objects: Vec<Value> = self.objects(kind, self.version).into_values().collect();
        list(written, kind, &self.version.to_string(), "", &objects)
    }

    /// A page of a list: the token of the next one is the version and how many objects are done.
    fn page(&self, kind: Kind, asked: &Asked, written: Written) -> Vec<u8> {
        let (version, done) = asked.value("continue").map_or((self.version, 0), |token| {
            let (version, done) = token.split_once('-').unwrap();
            (version.parse().unwrap(), done.parse().unwrap())
        });
        let objects = self.objects(kind, version).into_values();
        let mut rest: Vec<Value> = objects.skip(done).collect();
        let limit = asked
            .value("limit")
            .map_or(usize::MAX, |limit| limit.parse().unwrap());
        let token = if rest.len() > limit {
            format!("{version}-{}", done + limit)
        } else {
            String::new()
        };
        rest.truncate(limit);
        list(written, kind, &version.to_string(), &token, &rest)
    }
}

pub fn reply(written: Written, pieces: Vec<Piece>) -> Reply {
    match written {
        Written::Json => Reply::Answer(200, pieces),
        Written::Protobuf => Reply::Protobuf(200, pieces),
    }
}

/// Answer to a watch from a version that the server has forgotten.
pub fn expired() -> Reply {
    status(410, "Expired")
}

/// An error in the API's own form.
pub fn status(code: u16, reason: &str) -> Reply {
    let status = json!({"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": "no"});
    Reply::Answer(code, vec![Piece::Text(status.to_string())])
}

fn with_type(kind: Kind, object: &Value) -> Value {
    let (version, name) = kind.names();
    let mut typed = json!({"kind": name, "apiVersion": version});
    for (key, value) in object.as_object().unwrap() {
        typed[key] = value.clone();
    }
    typed
}

fn message(written: Written, kind: Kind, what: &str, object: &Value) -> Vec<u8> {
    match written {
        Written::Json => {
            let line = json!({"type": what, "object": with_type(kind, object)});
            format!("{line}\n").into_bytes()
        }
        Written::Protobuf => event(what, &typed(kind.names(), &encoded(kind, object))),
    }
}

fn list(written: Written, kind: Kind, version: &str, token: &str, objects: &[Value]) -> Vec<u8> {
    let (api_version, name) = kind.names();
    let name = format!("{name}List");
    match written {
        Written::Json => {
            let metadata = json!({"resourceVersion": version, "continue": token});
            let list = json!({"kind": name, "apiVersion": api_version, "metadata": metadata, "items": objects});
            list.to_string().into_bytes()
        }
        Written::Protobuf => {
            let metadata = [field(2, version.as_bytes()), field(3, token.as_bytes())].concat();
            let items = objects
                .iter()
                .map(|object| field(2, &encoded(kind, object)));
            let items: Vec<_> = items.collect();
            let list = [field(1, &metadata), items.concat()].concat();
            typed((api_version, &name), &list)
        }
    }
}

fn encoded(kind: Kind, object: &Value) -> Vec<u8> {
    fn encode<T: Message + serde::de::DeserializeOwned>(object: &Value) -> Vec<u8> {
        T::encode_to_vec(&serde_json::from_value(object.clone()).unwrap())
    }
    match kind {
        Kind::Service => encode::<ServiceObject>(object),
        Kind::Slice => encode::<EndpointSliceObject>(object),
        Kind::Node => encode::<NodeObject>(object),
    }
}
