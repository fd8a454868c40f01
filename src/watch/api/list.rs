//! Lists of objects: page by page, within limits.
//!
//! Commands list once; the reflector lists when a watch cannot bring the whole state.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::client::ApiServer;
use super::decode::{DecodedObject, Undecodable};
use super::error::{ApiError, malformed};
use super::page::{ListMetadata, MOST_OBJECTS, Page, PageContents};
use super::request::{self, RequestKind};
use super::resource::{Resource, Selector};
use super::response::{ApiResponse, RESPONSE_TIMEOUT};
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};

/// Complete list of a kind.
#[derive(Debug)]
pub struct ObjectList<K> {
    /// Objects in the order of the server.
    pub objects: Vec<K>,
    /// Objects that cannot be decoded.
    pub undecodable: Vec<Undecodable>,
}

/// Objects of the cluster that concern the proxy of one node.
#[derive(Debug)]
pub struct ClusterSnapshot {
    /// Services with a cluster IP that are not for another proxy.
    pub services: ObjectList<ServiceObject>,
    /// EndpointSlices of Services that are not headless.
    pub slices: ObjectList<EndpointSliceObject>,
    /// The Node, or an empty list if the cluster has none with this name.
    pub nodes: ObjectList<NodeObject>,
}

/// Lists the three kinds once. There is no retry; the caller gets the error.
///
/// # Errors
///
/// [`ApiError::TimedOut`] after `deadline`, or the error of the first list that fails.
pub async fn snapshot(
    server: &ApiServer,
    node: &str,
    deadline: Duration,
) -> Result<ClusterSnapshot, ApiError> {
    let (services, slices, nodes) = (
        Selector::services(),
        Selector::slices(),
        Selector::node(node),
    );
    let lists = async {
        let (services, slices, nodes) = tokio::try_join!(
            list(server, &services),
            list(server, &slices),
            list(server, &nodes),
        )?;
        Ok(ClusterSnapshot {
            services,
            slices,
            nodes,
        })
    };
    timeout(deadline, lists)
        .await
        .map_err(|_| ApiError::TimedOut(deadline))?
}

/// Lists one kind: in pages, or at once if the resource version expires before the last page.
pub async fn list<K: Resource>(
    server: &ApiServer,
    selector: &Selector<K>,
) -> Result<ObjectList<K>, ApiError> {
    match list_as(server, selector, Paging::Pages).await {
        Err(ApiError::Expired { .. }) => list_as(server, selector, Paging::Whole).await,
        result => result,
    }
}

async fn list_as<K: Resource>(
    server: &ApiServer,
    selector: &Selector<K>,
    paging: Paging,
) -> Result<ObjectList<K>, ApiError> {
    let mut list = ObjectList {
        objects: Vec::new(),
        undecodable: Vec::new(),
    };
    let mut pages = Pages::new(server, selector, paging);
    loop {
        let page = pages.next().await?;
        let PageContents { metadata, objects } = pages.contents(&page)?;
        for object in &objects {
            match DecodedObject::decode(object).state {
                Ok(object) => list.objects.push(object),
                Err(problem) => list.undecodable.push(problem),
            }
        }
        if pages.advance(&page, metadata)?.is_some() {
            return Ok(list);
        }
    }
}

/// Objects of the first page. A page is in memory as received: at 2 KiB per object, half a
/// megabyte. Larger ones cost memory, smaller ones requests to a server that all nodes list from
/// at once.
const FIRST_PAGE: u32 = 250;

/// Maximum objects of a page. Pages grow while they are small, since requests are limited: 10,000
/// Services are 8 pages and not 40.
const LARGEST_PAGE: u32 = 2000;

/// A page of fewer bytes is followed by one of twice as many objects, which is then in memory.
const SMALL_PAGE: usize = 1024 * 1024;

/// A page of at least as many bytes is followed by one of half as many objects.
const LARGE_PAGE: usize = 4 * 1024 * 1024;

/// Maximum time of a page. Servers end such requests themselves, by default after 60 s.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Maximum time of all pages of a list. The resource version of the first page expires after 5 to
/// 10 minutes, and the server then rejects the next request.
const LIST_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Amount of objects per request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paging {
    /// One page.
    Pages,
    /// All objects: a slow client may never reach the last page before the version of the first
    /// has expired.
    Whole,
}

/// List that is fetched page by page.
pub(super) struct Pages<'a, K> {
    server: &'a ApiServer,
    selector: &'a Selector<K>,
    paging: Paging,
    page_size: u32,
    limit: ListLimit,
    finished: u32,
    continue_token: Option<String>,
}

impl<'a, K: Resource> Pages<'a, K> {
    pub(super) fn new(server: &'a ApiServer, selector: &'a Selector<K>, paging: Paging) -> Self {
        Self {
            server,
            selector,
            paging,
            page_size: FIRST_PAGE,
            limit: ListLimit::new(LIST_TIMEOUT),
            finished: 0,
            continue_token: None,
        }
    }

    /// Reports whether no page is finished yet.
    pub(super) fn is_first(&self) -> bool {
        self.finished == 0
    }

    /// Fetches the next page.
    pub(super) async fn next(&mut self) -> Result<Page, ApiError> {
        let limit = match self.paging {
            Paging::Pages => Some(self.page_size),
            Paging::Whole => None,
        };
        let uri = request::list_uri(self.selector, limit, self.continue_token.as_deref());
        let mut response = ApiResponse::get(self.server, RequestKind::List, &uri).await?;
        let mut body = Vec::new();
        let end = self.limit.deadline().min(Instant::now() + PAGE_TIMEOUT);
        loop {
            let now = Instant::now();
            if now >= end {
                return Err(malformed("timed out: a page of the list is not complete"));
            }
            match response.piece(end.min(now + RESPONSE_TIMEOUT)).await? {
                Some(piece) => {
                    self.limit.add_bytes(piece.len())?;
                    body.extend_from_slice(&piece);
                }
                None => break,
            }
        }
        Ok(Page::new(body, response.encoding()))
    }

    /// Splits a page into its objects.
    ///
    /// # Errors
    ///
    /// The page is malformed, or the list has too many objects.
    pub(super) fn contents<'p>(&mut self, page: &'p Page) -> Result<PageContents<'p>, ApiError> {
        let contents = page.contents::<K>()?;
        self.limit.add_objects(contents.objects.len())?;
        Ok(contents)
    }

    /// Moves past a page. Returns the resource version of the list if that was the last page.
    ///
    /// # Errors
    ///
    /// The server repeats a continue token, so that the list would never end.
    pub(super) fn advance(
        &mut self,
        page: &Page,
        metadata: ListMetadata,
    ) -> Result<Option<String>, ApiError> {
        self.finished += 1;
        let Some(token) = metadata.continue_token.filter(|token| !token.is_empty()) else {
            return Ok(Some(metadata.resource_version.unwrap_or_default()));
        };
        if self.continue_token.as_ref() == Some(&token) {
            return Err(malformed(
                "the list never ends: its continue token was repeated",
            ));
        }
        self.continue_token = Some(token);
        match page.len() {
            ..SMALL_PAGE => self.page_size = (self.page_size * 2).min(LARGEST_PAGE),
            LARGE_PAGE.. => self.page_size = (self.page_size / 2).max(FIRST_PAGE),
            _ => {}
        }
        Ok(None)
    }
}

/// Maximum bytes of all objects of a kind as received: twice those of a cluster of 5,000 nodes.
const MOST_BYTES: usize = 512 * 1024 * 1024;

/// Remaining time, bytes and objects of one list, whether it comes in pages or as the events that
/// a watch begins with. A list without end would keep its kind from ever being known, and exhaust
/// the memory.
#[derive(Debug)]
pub(super) struct ListLimit {
    deadline: Instant,
    bytes: usize,
    objects: usize,
}

impl ListLimit {
    /// Returns the limit of a list that begins now and may take this long.
    pub(super) fn new(time: Duration) -> Self {
        Self {
            deadline: Instant::now() + time,
            bytes: MOST_BYTES,
            objects: MOST_OBJECTS,
        }
    }

    /// Returns the time at which the list must be complete.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Counts received bytes.
    ///
    /// # Errors
    ///
    /// The deadline or the maximum is exceeded: the list must be aborted.
    pub(super) fn add_bytes(&mut self, bytes: usize) -> Result<(), ApiError> {
        if Instant::now() >= self.deadline {
            return Err(malformed(
                "timed out: the list is not complete at its deadline",
            ));
        }
        self.bytes = subtract(self.bytes, bytes)?;
        Ok(())
    }

    /// Counts received objects.
    ///
    /// # Errors
    ///
    /// The maximum is exceeded: the list must be aborted.
    pub(super) fn add_objects(&mut self, objects: usize) -> Result<(), ApiError> {
        self.objects = subtract(self.objects, objects)?;
        Ok(())
    }
}

/// Fails if more was received than remained.
fn subtract(remaining: usize, count: usize) -> Result<usize, ApiError> {
    remaining
        .checked_sub(count)
        .ok_or_else(|| malformed("the list is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_reach_the_limit_of_bytes_and_objects() {
        let mut limit = ListLimit::new(Duration::from_secs(60));
        limit.add_bytes(MOST_BYTES - 1).unwrap();
        limit.add_bytes(1).unwrap();
        limit.add_objects(MOST_OBJECTS).unwrap();
        for error in [limit.add_bytes(1), limit.add_objects(1)] {
            let text = error.unwrap_err().in_full();
            assert_eq!(
                text,
                "the response cannot be decoded: the list is too large"
            );
        }
        limit.add_objects(0).unwrap();
    }
}
