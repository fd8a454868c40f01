//! The state of the cluster once, for commands that do not stay.
//!
//! Such a command wants an answer or an error, and no second try.

use std::time::Duration;

use tokio::time::timeout;

use super::client::ApiServer;
use super::error::ApiError;
use super::kind::{Kind, Selector};
use super::object::{Object, Undecodable};
use super::page::{Contents, Pages, Paging};
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};

/// All objects of a kind.
#[derive(Debug)]
pub struct Found<K> {
    /// Those that could be read.
    pub objects: Vec<K>,
    /// The others.
    pub undecodable: Vec<Undecodable>,
}

/// What a proxy on one node sees of the cluster.
#[derive(Debug)]
pub struct Snapshot {
    /// Services.
    pub services: Found<ServiceObject>,
    /// EndpointSlices.
    pub slices: Found<EndpointSliceObject>,
    /// The node, or nothing if there is none of that name.
    pub nodes: Found<NodeObject>,
}

/// Lists the three kinds, or fails after `deadline` with [`ApiError::Silent`].
pub async fn snapshot(
    server: &ApiServer,
    node: &str,
    deadline: Duration,
) -> Result<Snapshot, ApiError> {
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
        Ok(Snapshot {
            services,
            slices,
            nodes,
        })
    };
    timeout(deadline, lists)
        .await
        .map_err(|_| ApiError::Silent(deadline))?
}

/// Lists one kind: in pages, or at once if the pages take longer than the server remembers.
pub async fn list<K: Kind>(
    server: &ApiServer,
    selector: &Selector<K>,
) -> Result<Found<K>, ApiError> {
    match attempt(server, selector, Paging::Pages).await {
        Err(ApiError::Expired { .. }) => attempt(server, selector, Paging::Whole).await,
        result => result,
    }
}

async fn attempt<K: Kind>(
    server: &ApiServer,
    selector: &Selector<K>,
    paging: Paging,
) -> Result<Found<K>, ApiError> {
    let mut found = Found {
        objects: Vec::new(),
        undecodable: Vec::new(),
    };
    let mut pages = Pages::new(server, selector, paging);
    loop {
        let page = pages.next().await?;
        let Contents { metadata, objects } = pages.contents(&page)?;
        for object in &objects {
            match Object::read(object).state {
                Ok(object) => found.objects.push(object),
                Err(problem) => found.undecodable.push(problem),
            }
        }
        if pages.advance(&page, metadata)?.is_some() {
            return Ok(found);
        }
    }
}
