//! The kind that an object or a list says that it is.
//!
//! Whatever answers in place of an API server may answer with something else, which read as a list
//! of Services would be an empty one.

use std::borrow::Cow;

use bytes::Bytes;
use prost::Message;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::{ApiError, malformed};
use super::kind::Kind;

/// End of the names of kinds of lists.
const LIST: &str = "List";

/// `TypeMeta` of an object in protobuf. As bytes, because it is compared and not kept.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeMeta {
    #[prost(bytes = "bytes", tag = 1)]
    api_version: Bytes,
    #[prost(bytes = "bytes", tag = 2)]
    kind: Bytes,
}

/// Kind and version of an object in JSON.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TextMeta<'a> {
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
}

impl TypeMeta {
    /// Fails if it names another kind than an object of `K`; naming none is fine, as it is for Go.
    pub(super) fn expect_object<K: Kind>(&self) -> Result<(), ApiError> {
        expect::<K>(&self.api_version, &self.kind, "")
    }

    /// Fails if it names another kind than a list of `K`.
    pub(super) fn expect_list<K: Kind>(&self) -> Result<(), ApiError> {
        expect::<K>(&self.api_version, &self.kind, LIST)
    }
}

/// Fails if an object in JSON names another kind than `K`. What cannot be read names none.
pub(super) fn expect_object<K: Kind>(object: &RawValue) -> Result<(), ApiError> {
    // As API servers begin, so that nearly no object is read twice.
    if object.get().starts_with(K::JSON_START) {
        return Ok(());
    }
    let TextMeta { api_version, kind } = serde_json::from_str(object.get()).unwrap_or_default();
    expect_text::<K>(api_version.as_deref(), kind.as_deref(), "")
}

/// Fails if a list in JSON names another kind than a list of `K`.
pub(super) fn expect_list<K: Kind>(
    api_version: Option<&str>,
    kind: Option<&str>,
) -> Result<(), ApiError> {
    expect_text::<K>(api_version, kind, LIST)
}

fn expect_text<K: Kind>(
    api_version: Option<&str>,
    kind: Option<&str>,
    suffix: &str,
) -> Result<(), ApiError> {
    let bytes = |text: Option<&str>| text.unwrap_or_default().as_bytes().to_vec();
    expect::<K>(&bytes(api_version), &bytes(kind), suffix)
}

fn expect<K: Kind>(api_version: &[u8], kind: &[u8], suffix: &str) -> Result<(), ApiError> {
    let is_kind =
        kind.is_empty() || kind.strip_suffix(suffix.as_bytes()) == Some(K::NAME.as_bytes());
    let is_version = api_version.is_empty() || api_version == K::API_VERSION.as_bytes();
    if is_kind && is_version {
        return Ok(());
    }
    let found = [api_version, b" ", kind].concat();
    let found = String::from_utf8_lossy(&found);
    let (found, version, name) = (found.trim().escape_debug(), K::API_VERSION, K::NAME);
    Err(malformed(format!(
        "`{found}` came where `{version} {name}{suffix}` was asked for"
    )))
}
