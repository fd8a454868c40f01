//! Lists in pages.
//!
//! Apart because a page is held whole, as it came, while its objects are read one by one.

use bytes::Bytes;
use prost::Message;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{Answer, PATIENCE};
use super::client::ApiServer;
use super::encoding::{Asked, Encoding};
use super::envelope;
use super::error::{ApiError, malformed};
use super::kind::{Kind, Selector};
use super::raw::Raw;
use super::request;

/// Objects in a page. A page is in memory as it came: at 2 KiB an object, half a megabyte. Larger
/// ones cost memory, smaller ones requests to a server that all nodes ask at the same time.
const PAGE_SIZE: u32 = 250;

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
    resume: Option<String>,
}

impl<'a, K: Kind> Pages<'a, K> {
    pub(super) fn new(server: &'a ApiServer, selector: &'a Selector<K>, paging: Paging) -> Self {
        Self {
            server,
            selector,
            paging,
            resume: None,
        }
    }

    /// The next page as it came.
    pub(super) async fn next(&self) -> Result<Page, ApiError> {
        let limit = match self.paging {
            Paging::Pages => Some(PAGE_SIZE),
            Paging::Whole => None,
        };
        let uri = request::list(self.selector, limit, self.resume.as_deref());
        let mut answer = Answer::to(self.server, Asked::List, &uri).await?;
        let mut body = Vec::new();
        while let Some(piece) = answer.piece(PATIENCE).await? {
            append(&mut body, &piece, LONGEST_LIST)?;
        }
        Ok(Page {
            body: body.into(),
            encoding: answer.encoding(),
        })
    }

    /// Moves past a page. Returns the resource version of the list if that was the last page.
    pub(super) fn advance(&mut self, contents: &Contents<'_>) -> Option<String> {
        match &contents.metadata.resume {
            Some(token) if !token.is_empty() => {
                self.resume = Some(token.clone());
                None
            }
            _ => Some(
                contents
                    .metadata
                    .resource_version
                    .clone()
                    .unwrap_or_default(),
            ),
        }
    }
}

/// Adds a piece, as long as there is to be no more than `most` in all.
fn append(body: &mut Vec<u8>, piece: &[u8], most: usize) -> Result<(), ApiError> {
    if body.len() + piece.len() > most {
        return Err(malformed("a list has no end"));
    }
    body.extend_from_slice(piece);
    Ok(())
}

/// One page, unread.
pub(super) struct Page {
    pub(super) body: Bytes,
    pub(super) encoding: Encoding,
}

impl Page {
    /// Where its objects begin and end. Fails only if the body is no list at all.
    pub(super) fn contents(&self) -> Result<Contents<'_>, ApiError> {
        match self.encoding {
            Encoding::Json => {
                let Text { metadata, items } = serde_json::from_slice(&self.body)
                    .map_err(|error| ApiError::Connection(error.into()))?;
                let items = items.unwrap_or_default();
                let objects = items.into_iter().map(Raw::Json).collect();
                Ok(Contents { metadata, objects })
            }
            Encoding::Protobuf => {
                let List { metadata, items } = List::decode(envelope::open(self.body.clone())?)
                    .map_err(|error| ApiError::Connection(error.into()))?;
                let objects = items.into_iter().map(Raw::Protobuf).collect();
                Ok(Contents { metadata, objects })
            }
        }
    }
}

/// A page with every object still unread.
pub(super) struct Contents<'a> {
    metadata: ListMetadata,
    objects: Vec<Raw<'a>>,
}

impl<'a> Contents<'a> {
    pub(super) fn objects(&self) -> &[Raw<'a>] {
        &self.objects
    }
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
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
struct ListMetadata {
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
    fn a_list_without_end_is_an_error() {
        let mut body = Vec::new();
        for _ in 0..10 {
            append(&mut body, b"0123456789", 100).unwrap();
        }
        let error = append(&mut body, b"0", 100).unwrap_err();
        assert_eq!(error.in_full(), "the connection failed: a list has no end");
        assert_eq!(body.len(), 100);
    }
}
