//! An object from the wire, or at least its name.
//!
//! Apart because this is where one bad object is kept from spoiling the others.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use tower::BoxError;

use super::kind::Kind;
use super::raw::Raw;

/// Namespace and name; the namespace of a Node is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of an object that cannot be read, this is read as it stands.
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace.escape_debug())?;
        }
        write!(f, "{}", self.name.escape_debug())
    }
}

/// An object that is there and can't be read.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` can't be read")]
pub struct Undecodable {
    /// Which one; empty if not even that can be read.
    pub name: ObjectName,
    /// Why.
    pub source: BoxError,
}

/// What a list or a watch said about one object.
pub(super) struct Object<K> {
    /// Empty if it can't be read.
    pub(super) resource_version: String,
    pub(super) state: Result<K, Undecodable>,
}

impl<K: Kind> Object<K> {
    /// Never fails: what can't be read is part of the result. An object without a name counts as
    /// one that can't be read, since no rules can be about it.
    pub(super) fn read(raw: &Raw<'_>) -> Self {
        match raw.read::<K>() {
            Ok(object) => Self {
                resource_version: object.metadata().resource_version.clone(),
                state: named(object),
            },
            Err((partial, source)) => {
                let (name, resource_version) = match raw {
                    Raw::Json(raw) => identity(raw),
                    Raw::Protobuf(_) => {
                        let metadata = partial.metadata();
                        let namespace = metadata.namespace.clone();
                        let name = metadata.name.clone();
                        let name = ObjectName { namespace, name };
                        (name, metadata.resource_version.clone())
                    }
                };
                Self {
                    resource_version,
                    state: Err(Undecodable { name, source }),
                }
            }
        }
    }

    /// Reports whether it is known which object this is.
    pub(super) fn is_named(&self) -> bool {
        match &self.state {
            Ok(_) => true,
            Err(problem) => is_name_of::<K>(&problem.name.namespace, &problem.name.name),
        }
    }
}

fn named<K: Kind>(object: K) -> Result<K, Undecodable> {
    let metadata = object.metadata();
    if is_name_of::<K>(&metadata.namespace, &metadata.name) {
        return Ok(object);
    }
    let name = ObjectName {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
    };
    let source = "`metadata` has no name or no namespace".into();
    Err(Undecodable { name, source })
}

fn is_name_of<K: Kind>(namespace: &str, name: &str) -> bool {
    !name.is_empty() && (!namespace.is_empty() || !K::IS_NAMESPACED)
}

/// Name and resource version of an object that can't be read otherwise.
fn identity(raw: &RawValue) -> (ObjectName, String) {
    let Stub { metadata } = serde_json::from_str(raw.get()).unwrap_or_default();
    let name = ObjectName {
        namespace: text(metadata.namespace),
        name: text(metadata.name),
    };
    (name, text(metadata.resource_version))
}

fn text(raw: Option<&RawValue>) -> String {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// The part of an object that nobody gets wrong.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Stub<'a> {
    metadata: StubMetadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StubMetadata<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_version: Option<&'a RawValue>,
}
