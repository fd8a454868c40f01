//! A part of a body that is not read yet, in whichever encoding it came.
//!
//! The two encodings meet here; lists, events and objects know neither.

use std::borrow::Cow;

use bytes::Bytes;
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tower::BoxError;

/// What can be read in both encodings. Trimmed to what is used: the rest is skipped unread.
pub trait Spoken: DeserializeOwned + Message + Default {}

impl<T: DeserializeOwned + Message + Default> Spoken for T {}

/// One object, unread.
#[derive(Debug, Clone)]
pub(super) enum Raw<'a> {
    /// Text.
    Json(&'a RawValue),
    /// A message, out of its envelope.
    Protobuf(Bytes),
}

impl Raw<'_> {
    /// Reads all of it, or as much as can be: a message begins with its metadata, so that a bad
    /// one still has a name. Of bad JSON nothing is left.
    pub(super) fn read<T: Spoken>(&self) -> Result<T, (T, BoxError)> {
        match self {
            Self::Json(raw) => {
                serde_json::from_str(raw.get()).map_err(|error| (T::default(), error.into()))
            }
            Self::Protobuf(raw) => {
                let mut value = T::default();
                match value.merge(raw.as_ref()) {
                    Ok(()) => Ok(value),
                    Err(error) => Err((value, error.into())),
                }
            }
        }
    }
}

/// Text that may hold bytes which are not UTF-8, each read as U+FFFD, as Go reads JSON: one odd
/// byte in a field that nothing depends on must not cost the whole message.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    // Far faster where all is well, which is nearly always.
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}
