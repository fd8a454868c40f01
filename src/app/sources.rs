//! Where changes come from: the API server's three kinds, or a folder of manifests.
//!
//! Apart because the rest of the daemon does not care which. That there is a source is found out
//! before anything is set on this machine, and only then it is followed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::first_look::Watched;
use crate::config::{RenderConfig, Source, Unusable};
use crate::events::Writer;
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use crate::model::Kind;
use crate::telemetry::WatchMetrics;
use crate::watch::api::{self, ApiServer, ConnectError, Notice, Selector};
use crate::watch::manifests::{self, ManifestOptions};
use crate::watch::{Observed, Outlet};

type ToFamilies = Outlet<Watched>;

/// A source that is there. Nothing was asked of it yet.
pub(super) enum Opened {
    /// An API server; whether it answers is not known.
    Cluster(ApiServer),
    /// A path at which there was something.
    Manifests(PathBuf, ManifestOptions),
}

/// Finds the source.
///
/// # Errors
///
/// There is none: nothing names one and this is no Pod, which makes the command line unusable; or
/// no usable kubeconfig, or no manifests at that path.
pub(super) async fn open(config: &RenderConfig, metrics: &WatchMetrics) -> anyhow::Result<Opened> {
    match &config.source {
        Source::Cluster(options) => {
            let server = api::connect_counted(options, &metrics.requests).await;
            Ok(Opened::Cluster(server.map_err(unnamed)?))
        }
        Source::Manifests {
            path,
            service_cidrs,
        } => {
            manifests::exist(path)?;
            let options = ManifestOptions {
                node_name: config.node_name.as_str().into(),
                service_ranges: *service_cidrs,
            };
            Ok(Opened::Manifests(path.clone(), options))
        }
    }
}

fn unnamed(error: ConnectError) -> anyhow::Error {
    match error {
        ConnectError::InCluster(_) => Unusable::without_source().into(),
        other => other.into(),
    }
}

/// Follows the source for ever.
///
/// # Errors
///
/// Only at the start: the manifests are gone again.
pub(super) async fn run(
    source: Opened,
    node_name: &str,
    sink: Watched,
    metrics: &WatchMetrics,
    writer: Option<Writer>,
) -> anyhow::Result<()> {
    let outlet = Outlet::new(sink, node_name.into());
    match source {
        Opened::Cluster(server) => {
            let follow = follow_cluster(&server, node_name, outlet, metrics);
            match writer {
                // The watches go first.
                Some(writer) => {
                    let _ = tokio::join!(biased; follow, writer.run(&server));
                }
                None => follow.await,
            }
        }
        Opened::Manifests(path, options) => {
            manifests::follow(path, options, outlet).await?;
        }
    }
    Ok(())
}

async fn follow_cluster(
    server: &ApiServer,
    node_name: &str,
    outlet: ToFamilies,
    metrics: &WatchMetrics,
) {
    let outlet = Arc::new(Mutex::new(outlet));
    let sink = || ClusterSink {
        outlet: Arc::clone(&outlet),
        metrics: metrics.clone(),
    };
    let (mut services, mut slices, mut node) = (sink(), sink(), sink());
    for kind in [Kind::Service, Kind::EndpointSlice, Kind::Node] {
        // Nothing is known yet, and ages since the start.
        metrics.ages.current(kind.as_str());
    }
    let selectors = (
        Selector::services(),
        Selector::slices(),
        Selector::node(node_name),
    );
    tokio::join!(
        api::follow::<ServiceObject, _>(server, &selectors.0, &mut services),
        api::follow::<EndpointSliceObject, _>(server, &selectors.1, &mut slices),
        api::follow::<NodeObject, _>(server, &selectors.2, &mut node),
    );
}

/// Passes on what was seen and counts what went wrong.
struct ClusterSink {
    /// Shared by the three kinds, for their common strings; one thread runs them all.
    outlet: Arc<Mutex<ToFamilies>>,
    metrics: WatchMetrics,
}

impl ClusterSink {
    fn outlet(&self) -> MutexGuard<'_, ToFamilies> {
        self.outlet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, kind: Kind, notice: &Notice<'_>) {
        match notice {
            Notice::Connected => {}
            Notice::Current => self.metrics.ages.current(kind.as_str()),
            Notice::Failed { .. } => self.metrics.failed(kind.as_str()),
            Notice::Undecodable(undecodable) => {
                self.metrics.undecodable(kind.as_str());
                let name = &undecodable.name;
                self.outlet().keep(kind, &name.namespace, &name.name);
            }
        }
    }
}

impl api::Sink<ServiceObject> for ClusterSink {
    async fn observe(&mut self, observed: Observed<ServiceObject>) {
        self.outlet().service(observed);
    }

    fn notice(&mut self, notice: Notice<'_>) {
        self.count(Kind::Service, &notice);
    }
}

impl api::Sink<EndpointSliceObject> for ClusterSink {
    async fn observe(&mut self, observed: Observed<EndpointSliceObject>) {
        self.outlet().endpoint_slice(observed);
    }

    fn notice(&mut self, notice: Notice<'_>) {
        self.count(Kind::EndpointSlice, &notice);
    }
}

impl api::Sink<NodeObject> for ClusterSink {
    async fn observe(&mut self, observed: Observed<NodeObject>) {
        self.outlet().node(observed);
    }

    fn notice(&mut self, notice: Notice<'_>) {
        self.count(Kind::Node, &notice);
    }
}
