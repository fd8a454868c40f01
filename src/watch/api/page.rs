//! Lists in pages.
//!
//! Apart because a page is held whole, as text, while its objects are read one by one.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{Answer, PATIENCE};
use super::client::ApiServer;
use super::error::ApiError;
use super::kind::{Kind, Selector};
use super::request;

/// Objects in a page. A page is in memory as text: at 2 KiB an object, half a megabyte. Larger
/// ones cost memory, smaller ones requests to a server that all nodes ask at the same time.
const PAGE_SIZE: u32 = 250;

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

    /// The next page as text.
    pub(super) async fn next(&self) -> Result<Page, ApiError> {
        let limit = match self.paging {
            Paging::Pages => Some(PAGE_SIZE),
            Paging::Whole => None,
        };
        let uri = request::list(self.selector, limit, self.resume.as_deref());
        let mut answer = Answer::to(self.server, &uri).await?;
        let mut body = Vec::new();
        while let Some(piece) = answer.piece(PATIENCE).await? {
            body.extend_from_slice(&piece);
        }
        Ok(Page(body.into()))
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

/// One page, unread.
pub(super) struct Page(Bytes);

impl Page {
    /// Where its objects begin and end. Fails only if the text is no list at all.
    pub(super) fn contents(&self) -> Result<Contents<'_>, ApiError> {
        serde_json::from_slice(&self.0).map_err(|error| ApiError::Connection(error.into()))
    }
}

/// A page with every object still as text.
#[derive(Deserialize)]
pub(super) struct Contents<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

impl<'a> Contents<'a> {
    pub(super) fn objects(&self) -> impl Iterator<Item = &'a RawValue> + use<'a, '_> {
        self.items.iter().flatten().copied()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    resume: Option<String>,
}
