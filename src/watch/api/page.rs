//! Lists in pages.
//!
//! A page is held whole, as it came, while its objects are read one by one.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::{Answer, PATIENCE};
use super::client::ApiServer;
use super::encoding::{Asked, Encoding};
use super::envelope;
use super::error::{ApiError, malformed};
use super::kind::{Kind, Selector};
use super::raw::{Raw, lossy};
use super::request;
use super::type_meta;

/// Objects in the first page. A page is in memory as it came: at 2 KiB an object, half a megabyte.
/// Larger ones cost memory, smaller ones requests to a server that all nodes ask at the same time.
const PAGE_SIZE: u32 = 250;

/// Pages grow while they are small, since requests are limited: 10,000 Services are 8 pages and
/// not 40. No page is larger than this.
const LARGEST_PAGE: u32 = 2000;

/// A page of fewer bytes is followed by one of twice as many objects, which is then in memory.
const SMALL_PAGE: usize = 1024 * 1024;

/// A page of at least as many bytes is followed by one of half as many objects.
const LARGE_PAGE: usize = 4 * 1024 * 1024;

/// No list has more pages. In objects that is more than a store holds; a server that never ends
/// a list gets another request after this.
const MOST_PAGES: u32 = 10_000;

/// Time for a page in all. Servers end such requests themselves, after 60 s unless configured
/// otherwise.
const PAGE_DEADLINE: Duration = Duration::from_secs(5 * 60);

/// In bytes, of a page, or of a list that came at once: 250 objects of the largest that stores
/// take, or those of a cluster of 5,000 nodes. Without it a server that goes on for ever would take
/// all memory, and with it the process.
const LONGEST_LIST: usize = 512 * 1024 * 1024;

/// How much to ask for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paging {
    /// A page at a time.
    Pages,
    /// Everything at once: slow clients may never reach the last page before the server has
    /// forgotten the first.
    Whole,
}

/// A list on its way.
pub(super) struct Pages<'a, K> {
    server: &'a ApiServer,
    selector: &'a Selector<K>,
    paging: Paging,
    limit: u32,
    finished: u32,
    resume: Option<String>,
}

impl<'a, K: Kind> Pages<'a, K> {
    pub(super) fn new(server: &'a ApiServer, selector: &'a Selector<K>, paging: Paging) -> Self {
        Self {
            server,
            selector,
            paging,
            limit: PAGE_SIZE,
            finished: 0,
            resume: None,
        }
    }

    /// Reports whether no page is finished yet.
    pub(super) fn is_first(&self) -> bool {
        self.finished == 0
    }

    /// The next page as it came.
    pub(super) async fn next(&self) -> Result<Page, ApiError> {
        let limit = match self.paging {
            Paging::Pages => Some(self.limit),
            Paging::Whole => None,
        };
        let uri = request::list(self.selector, limit, self.resume.as_deref());
        let mut answer = Answer::to(self.server, Asked::List, &uri).await?;
        let mut body = Vec::new();
        let end = Instant::now() + PAGE_DEADLINE;
        loop {
            let now = Instant::now();
            if now >= end {
                return Err(malformed("a page of a list takes too long"));
            }
            match answer.piece(end.min(now + PATIENCE)).await? {
                Some(piece) => append(&mut body, &piece, LONGEST_LIST)?,
                None => break,
            }
        }
        Ok(Page::new(body, answer.encoding()))
    }

    /// Moves past a page. Returns the resource version of the list if that was the last page.
    ///
    /// # Errors
    ///
    /// The server goes on with what it has sent already, or without end.
    pub(super) fn advance(
        &mut self,
        page: &Page,
        metadata: ListMetadata,
    ) -> Result<Option<String>, ApiError> {
        self.finished += 1;
        let Some(token) = metadata.resume.filter(|token| !token.is_empty()) else {
            return Ok(Some(metadata.resource_version.unwrap_or_default()));
        };
        if self.finished >= MOST_PAGES || self.resume.as_ref() == Some(&token) {
            return Err(malformed("a list has no end"));
        }
        self.resume = Some(token);
        match page.len() {
            ..SMALL_PAGE => self.limit = (self.limit * 2).min(LARGEST_PAGE),
            LARGE_PAGE.. => self.limit = (self.limit / 2).max(PAGE_SIZE),
            _ => {}
        }
        Ok(None)
    }
}

/// Adds a piece, as long as there is to be no more than `most` in all.
fn append(body: &mut Vec<u8>, piece: &[u8], most: usize) -> Result<(), ApiError> {
    if body.len() + piece.len() > most {
        return Err(malformed("a list is too long"));
    }
    body.extend_from_slice(piece);
    Ok(())
}

/// One page, unread.
pub(super) enum Page {
    Json(String),
    Protobuf(Bytes),
}

impl Page {
    pub(super) fn new(body: Vec<u8>, encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json(match String::from_utf8(body) {
                Ok(text) => text,
                Err(error) => lossy(error.as_bytes()).into_owned(),
            }),
            Encoding::Protobuf => Self::Protobuf(body.into()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Json(text) => text.len(),
            Self::Protobuf(bytes) => bytes.len(),
        }
    }

    /// Finds where the objects begin and end. Fails only if the body is not a list of the kind.
    pub(super) fn contents<K: Kind>(&self) -> Result<Contents<'_>, ApiError> {
        match self {
            Self::Json(body) => {
                let text: Text<'_> = serde_json::from_str(body).map_err(malformed)?;
                type_meta::expect_list::<K>(text.api_version.as_deref(), text.kind.as_deref())?;
                let Some(items) = text.items else {
                    return Err(malformed("a list has no `items`"));
                };
                Ok(Contents {
                    metadata: text.metadata,
                    objects: items.into_iter().map(Raw::Json).collect(),
                })
            }
            Self::Protobuf(body) => {
                let (type_meta, message) = envelope::open(body.clone())?;
                type_meta.expect_list::<K>()?;
                let List { metadata, items } = List::decode(message).map_err(malformed)?;
                let objects = items.into_iter().map(Raw::Protobuf).collect();
                Ok(Contents { metadata, objects })
            }
        }
    }
}

/// A page with every object still unread.
pub(super) struct Contents<'a> {
    pub(super) metadata: ListMetadata,
    pub(super) objects: Vec<Raw<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text<'a> {
    #[serde(borrow, default)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default, deserialize_with = "null_or_list")]
    items: Option<Vec<&'a RawValue>>,
}

/// Go writes an empty list as null, and never leaves it out.
fn null_or_list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let items = Option::<Vec<T>>::deserialize(deserializer)?;
    Ok(Some(items.unwrap_or_default()))
}

/// `ServiceList` and its like: the bytes of the items stay where they are.
#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, required, tag = 1)]
    metadata: ListMetadata,
    #[prost(bytes = "bytes", repeated, tag = 2)]
    items: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata {
    #[prost(string, optional, tag = 2)]
    resource_version: Option<String>,
    #[prost(string, optional, tag = 3)]
    #[serde(rename = "continue")]
    resume: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_too_long_is_an_error() {
        let mut body = Vec::new();
        for _ in 0..10 {
            append(&mut body, b"0123456789", 100).unwrap();
        }
        let error = append(&mut body, b"0", 100).unwrap_err();
        assert_eq!(
            error.in_full(),
            "the answer cannot be read: a list is too long"
        );
        assert_eq!(body.len(), 100);
    }
}
