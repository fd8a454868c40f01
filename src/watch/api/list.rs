//! LIST requests: page by page, within limits of time and bytes.
//!
//! For commands, which list once, and for the reflector when a WatchList has failed. A page stays
//! in memory as it was received while its objects are decoded one by one.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::client::ApiClient;
use super::encoding::{
    EncodedObject, Encoding, ObjectDecodeError, ReceivedObject, expect_type, lossy, open_envelope,
};
use super::error::{ApiError, not_decodable, protocol_error};
use super::resource::{Resource, Selector, list_uri};
use super::response::ApiResponse;
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};

/// Complete list of a kind.
#[derive(Debug)]
pub struct ObjectList<K> {
    /// Objects in the order of the server.
    pub objects: Vec<K>,
    pub undecodable: Vec<ObjectDecodeError>,
}

/// Objects of the cluster that concern kube-proxy on one node.
#[derive(Debug)]
pub struct ClusterSnapshot {
    /// Services that are neither headless nor for another service proxy, including `ExternalName`
    /// ones.
    pub services: ObjectList<ServiceObject>,
    /// EndpointSlices of Services that are not headless.
    pub slices: ObjectList<EndpointSliceObject>,
    /// The Node, or an empty list if the cluster has none with this name.
    pub nodes: ObjectList<NodeObject>,
}

/// Lists Services, EndpointSlices and the Node once. Failed requests are not retried, except as
/// JSON if the server rejects protobuf.
///
/// # Errors
///
/// [`ApiError::DeadlineExceeded`] after `limit`, or the error of the first list that fails.
pub async fn snapshot(
    server: &ApiClient,
    node: &str,
    limit: Option<Duration>,
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
    within(limit, lists).await
}

/// Waits for lists, at most this long.
pub(crate) async fn within<T>(
    limit: Option<Duration>,
    lists: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    match limit {
        Some(limit) => timeout(limit, lists)
            .await
            .map_err(|_| ApiError::DeadlineExceeded(limit))?,
        None => lists.await,
    }
}

pub(crate) async fn list<K: Resource>(
    server: &ApiClient,
    selector: &Selector<K>,
) -> Result<ObjectList<K>, ApiError> {
    let mut list = ObjectList {
        objects: Vec::new(),
        undecodable: Vec::new(),
    };
    let mut pages = Pages::new(server, selector);
    loop {
        let page = pages.next().await?;
        let PageContents { metadata, objects } = page.split::<K>()?;
        for object in &objects {
            match ReceivedObject::decode(object).decoded {
                Ok(object) => list.objects.push(object),
                Err(problem) => list.undecodable.push(problem),
            }
        }
        if pages.advance(metadata)?.is_some() {
            return Ok(list);
        }
    }
}

/// Objects of a page. A page is in memory as received: at 2 KiB per object, 2 MiB. Larger pages
/// take more memory; smaller ones take more requests, whose rate is limited, and which all nodes
/// may send at once.
const PAGE_OBJECTS: u32 = 1000;

/// Maximum time of a page. Servers end such requests themselves, by default after 60 s.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Maximum time of all pages of a list. The resource version of the first page expires after 5 to
/// 10 minutes, and the server then rejects the next request.
const LIST_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// List that is fetched page by page.
pub(super) struct Pages<'a, K> {
    server: &'a ApiClient,
    selector: &'a Selector<K>,
    limit: ListLimit,
    finished: u32,
    continue_token: Option<String>,
}

impl<'a, K: Resource> Pages<'a, K> {
    pub(super) fn new(server: &'a ApiClient, selector: &'a Selector<K>) -> Self {
        Self {
            server,
            selector,
            limit: ListLimit::new(LIST_TIMEOUT),
            finished: 0,
            continue_token: None,
        }
    }

    /// Reports whether the current page is the first one.
    pub(super) fn is_first(&self) -> bool {
        self.finished == 0
    }

    pub(super) async fn next(&mut self) -> Result<Page, ApiError> {
        let token = self.continue_token.as_deref();
        let uri = list_uri(self.selector, PAGE_OBJECTS, token);
        let accept = self.server.encoding.accept();
        let mut response = ApiResponse::get(self.server, accept, &uri).await?;
        let mut body = Vec::new();
        let deadline = self.limit.deadline().min(Instant::now() + PAGE_TIMEOUT);
        let count = |bytes| self.limit.add_bytes(bytes);
        response.read_to_end(&mut body, deadline, count).await?;
        Ok(Page::new(body, response.encoding))
    }

    /// Finishes a page. Returns the resource version of the list if that was the last page.
    ///
    /// # Errors
    ///
    /// The server repeats a continue token, so that the list would never end.
    pub(super) fn advance(&mut self, metadata: ListMetadata) -> Result<Option<String>, ApiError> {
        self.finished += 1;
        let Some(token) = metadata.continue_token.filter(|token| !token.is_empty()) else {
            return Ok(Some(metadata.resource_version.unwrap_or_default()));
        };
        if self.continue_token.as_ref() == Some(&token) {
            return Err(protocol_error(
                "the list never ends: its continue token was repeated",
            ));
        }
        self.continue_token = Some(token);
        Ok(None)
    }
}

/// Maximum bytes of all objects of a kind as received: twice as many as in a cluster of 5,000
/// nodes.
const MAX_LIST_BYTES: usize = 512 * 1024 * 1024;

/// Remaining bytes of one LIST or WatchList, and its deadline. An endless list would exhaust the
/// memory, and would never be complete.
#[derive(Debug)]
pub(super) struct ListLimit {
    deadline: Instant,
    bytes: usize,
}

impl ListLimit {
    /// Returns the limit of a list that begins now and must be complete within `time`.
    pub(super) fn new(time: Duration) -> Self {
        Self {
            deadline: Instant::now() + time,
            bytes: MAX_LIST_BYTES,
        }
    }

    /// Returns the time at which the list must be complete.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Counts received bytes. Fails if the deadline has passed or the maximum is exceeded.
    pub(super) fn add_bytes(&mut self, bytes: usize) -> Result<(), ApiError> {
        if Instant::now() >= self.deadline {
            return Err(protocol_error(
                "timed out: the list is not complete at its deadline",
            ));
        }
        self.bytes = self
            .bytes
            .checked_sub(bytes)
            .ok_or_else(|| protocol_error("the list exceeds 512 MiB"))?;
        Ok(())
    }
}

/// One page of a list, not decoded.
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

    /// Splits the page into its objects. Fails if it is not a list of the kind.
    pub(super) fn split<K: Resource>(&self) -> Result<PageContents<'_>, ApiError> {
        match self {
            Self::Json(body) => {
                let list: JsonList<'_> = serde_json::from_str(body).map_err(not_decodable)?;
                let [version, kind] = [list.api_version, list.kind].map(Option::unwrap_or_default);
                expect_type::<K>(version.as_bytes(), kind.as_bytes(), "List")?;
                let Some(items) = list.items else {
                    return Err(not_decodable("a list has no `items`"));
                };
                Ok(PageContents {
                    metadata: list.metadata,
                    objects: items.into_iter().map(EncodedObject::Json).collect(),
                })
            }
            Self::Protobuf(body) => {
                let (type_meta, message) = open_envelope(body.clone())?;
                expect_type::<K>(&type_meta.api_version, &type_meta.kind, "List")?;
                let ProtobufList { metadata, items } =
                    ProtobufList::decode(message).map_err(not_decodable)?;
                let objects = items.into_iter().map(EncodedObject::Protobuf).collect();
                Ok(PageContents { metadata, objects })
            }
        }
    }
}

/// Objects of a page, not decoded.
pub(super) struct PageContents<'a> {
    pub(super) metadata: ListMetadata,
    pub(super) objects: Vec<EncodedObject<'a>>,
}

/// List of any kind in JSON, such as `ServiceList`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonList<'a> {
    #[serde(borrow, default)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default, deserialize_with = "null_or_list")]
    items: Option<Vec<&'a RawValue>>,
}

/// Decodes `items`: Go writes an empty list as null. Missing `items` stay `None`.
fn null_or_list<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<&'de RawValue>>, D::Error> {
    Option::deserialize(deserializer).map(|items| Some(items.unwrap_or_default()))
}

/// List of any kind in protobuf, such as `ServiceList`. The bytes of its items are shared, not
/// copied.
#[derive(Clone, PartialEq, Message)]
struct ProtobufList {
    #[prost(message, required, tag = 1)]
    metadata: ListMetadata,
    #[prost(bytes = "bytes", repeated, tag = 2)]
    items: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata {
    #[prost(string, optional, tag = 2)]
    pub(super) resource_version: Option<String>,
    #[prost(string, optional, tag = 3)]
    #[serde(rename = "continue")]
    pub(super) continue_token: Option<String>,
}

#[cfg(test)]
#[path = "tests/list.rs"]
mod tests;
