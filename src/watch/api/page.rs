//! Lists in pages.
//!
//! A page is held whole, as it came, while its objects are read one by one.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::{Answer, PATIENCE};
use super::client::ApiServer;
use super::encoding::{Asked, Encoding};
use super::envelope;
use super::error::{ApiError, malformed};
use super::kind::{Kind, Selector};
use super::list_limit::{ListLimit, MOST_OBJECTS};
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

/// Time for a page in all. Servers end such requests themselves, after 60 s unless configured
/// otherwise.
const PAGE_DEADLINE: Duration = Duration::from_secs(5 * 60);

/// Time for all pages of a list. Servers forget the version of the first page after 5 to 10
/// minutes, and then refuse the next one.
const LIST_DEADLINE: Duration = Duration::from_secs(10 * 60);

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
    page_size: u32,
    limit: ListLimit,
    finished: u32,
    resume: Option<String>,
}

impl<'a, K: Kind> Pages<'a, K> {
    pub(super) fn new(server: &'a ApiServer, selector: &'a Selector<K>, paging: Paging) -> Self {
        Self {
            server,
            selector,
            paging,
            page_size: PAGE_SIZE,
            limit: ListLimit::new(LIST_DEADLINE),
            finished: 0,
            resume: None,
        }
    }

    /// Reports whether no page is finished yet.
    pub(super) fn is_first(&self) -> bool {
        self.finished == 0
    }

    /// The next page as it came.
    pub(super) async fn next(&mut self) -> Result<Page, ApiError> {
        let limit = match self.paging {
            Paging::Pages => Some(self.page_size),
            Paging::Whole => None,
        };
        let uri = request::list(self.selector, limit, self.resume.as_deref());
        let mut answer = Answer::to(self.server, Asked::List, &uri).await?;
        let mut body = Vec::new();
        let end = self.limit.deadline().min(Instant::now() + PAGE_DEADLINE);
        loop {
            let now = Instant::now();
            if now >= end {
                return Err(malformed("a page of a list takes too long"));
            }
            match answer.piece(end.min(now + PATIENCE)).await? {
                Some(piece) => {
                    self.limit.add_bytes(piece.len())?;
                    body.extend_from_slice(&piece);
                }
                None => break,
            }
        }
        Ok(Page::new(body, answer.encoding()))
    }

    /// The contents of a page, if its objects are not too many for one list.
    pub(super) fn contents<'p>(&mut self, page: &'p Page) -> Result<Contents<'p>, ApiError> {
        let contents = page.contents::<K>()?;
        self.limit.add_objects(contents.objects.len())?;
        Ok(contents)
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
        if self.resume.as_ref() == Some(&token) {
            return Err(malformed("a list has no end"));
        }
        self.resume = Some(token);
        match page.len() {
            ..SMALL_PAGE => self.page_size = (self.page_size * 2).min(LARGEST_PAGE),
            LARGE_PAGE.. => self.page_size = (self.page_size / 2).max(PAGE_SIZE),
            _ => {}
        }
        Ok(None)
    }
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

    /// Finds where the objects begin and end. Fails only if the body is not a list of the kind, or
    /// has more objects than any.
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
                expect_few_items(&message)?;
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
fn null_or_list<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<&'de RawValue>>, D::Error> {
    let items = Option::<Items<'de>>::deserialize(deserializer)?;
    Ok(Some(items.map_or_else(Vec::new, |items| items.0)))
}

/// Objects of a page in JSON.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor)
    }
}

struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Items<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Items<'de>, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = items.next_element()? {
            if found.len() >= MOST_OBJECTS {
                return Err(A::Error::custom(TOO_MANY));
            }
            found.push(item);
        }
        Ok(Items(found))
    }
}

/// Fails if a list in protobuf has so many items that even where they are would take all memory.
fn expect_few_items(mut list: &[u8]) -> Result<(), ApiError> {
    let mut items = 0;
    while !list.is_empty() {
        let (tag, wire_type) = decode_key(&mut list).map_err(malformed)?;
        items += usize::from(tag == ITEMS);
        if items > MOST_OBJECTS {
            return Err(malformed(TOO_MANY));
        }
        skip_field(wire_type, tag, &mut list, DecodeContext::default()).map_err(malformed)?;
    }
    Ok(())
}

const TOO_MANY: &str = "a list has too many objects";

/// Tag of `items` in every list.
const ITEMS: u32 = 2;

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
    use crate::ingest::ServiceObject;

    /// Reads a list of so many empty objects.
    fn read(objects: usize, encoding: Encoding) -> Result<usize, String> {
        let body = match encoding {
            Encoding::Json => format!("{{\"items\":[{}5]}}", "5,".repeat(objects - 1)).into_bytes(),
            Encoding::Protobuf => {
                let mut body = b"k8s\0\x12".to_vec();
                prost::encode_length_delimiter(2 * objects, &mut body).unwrap();
                body.extend([0x12, 0].repeat(objects));
                body
            }
        };
        let page = Page::new(body, encoding);
        let contents = page.contents::<ServiceObject>();
        contents
            .map(|contents| contents.objects.len())
            .map_err(|error| error.in_full())
    }

    #[test]
    fn a_page_of_too_many_objects_is_an_error() {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            assert_eq!(read(MOST_OBJECTS, encoding), Ok(MOST_OBJECTS));
            let error = read(MOST_OBJECTS + 1, encoding).unwrap_err();
            assert!(error.contains(TOO_MANY), "{error}");
        }
    }
}
