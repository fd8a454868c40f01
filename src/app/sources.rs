//! Source of changes: three kinds of objects of the API server, or manifests.
//!
//! Opening is separate from following, so that a missing source is reported before anything on the
//! node is changed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::startup_checks::ChangeSenders;
use crate::config::{RenderConfig, Source, Unusable};
use crate::events::Writer;
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use crate::model::Kind;
use crate::telemetry::WatchMetrics;
use crate::watch::api::{self, ApiServer, ConnectError, Notice, Selector};
use crate::watch::manifests::{self, ManifestOptions};
use crate::watch::{Observed, Outlet};

type FamilyOutlet = Outlet<ChangeSenders>;

/// Source that exists. No request was sent to it yet.
pub(super) enum OpenedSource {
    /// API server; it may be unreachable.
    Cluster(ApiServer),
    /// Path that existed.
    Manifests(PathBuf, ManifestOptions),
}

/// Opens the source.
///
/// # Errors
///
/// There is none: no flag names one outside of a Pod, which makes the command line unusable; or
/// the kubeconfig is invalid, or the path of the manifests does not exist.
pub(super) async fn open(
    config: &RenderConfig,
    metrics: &WatchMetrics,
) -> anyhow::Result<OpenedSource> {
    match &config.source {
        Source::Cluster(options) => {
            let server = api::connect_counted(options, &metrics.requests).await;
            Ok(OpenedSource::Cluster(server.map_err(connect_error)?))
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
            Ok(OpenedSource::Manifests(path.clone(), options))
        }
    }
}

fn connect_error(error: ConnectError) -> anyhow::Error {
    match error {
        ConnectError::InCluster(_) => Unusable::without_source().into(),
        other => other.into(),
    }
}

/// Follows the source forever.
///
/// # Errors
///
/// Only at the start: the manifests were removed after they were found.
pub(super) async fn run(
    source: OpenedSource,
    node_name: &str,
    sink: ChangeSenders,
    metrics: &WatchMetrics,
    writer: Option<Writer>,
) -> anyhow::Result<()> {
    let outlet = Outlet::new(sink, node_name.into());
    match source {
        OpenedSource::Cluster(server) => {
            let follow = follow_cluster(&server, node_name, outlet, metrics);
            match writer {
                // Watches take precedence over Events.
                Some(writer) => {
                    let _ = tokio::join!(biased; follow, writer.run(&server));
                }
                None => follow.await,
            }
        }
        OpenedSource::Manifests(path, options) => {
            manifests::follow(path, options, outlet).await?;
        }
    }
    Ok(())
}

async fn follow_cluster(
    server: &ApiServer,
    node_name: &str,
    outlet: FamilyOutlet,
    metrics: &WatchMetrics,
) {
    let outlet = Arc::new(Mutex::new(outlet));
    let sink = || ClusterSink {
        outlet: Arc::clone(&outlet),
        metrics: metrics.clone(),
    };
    let (mut services, mut slices, mut node) = (sink(), sink(), sink());
    for kind in [Kind::Service, Kind::EndpointSlice, Kind::Node] {
        // Before the first list, the age of a kind counts from the start.
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

/// Passes objects on to the families, and counts errors.
struct ClusterSink {
    /// Shared by the three kinds, for their common strings; one thread runs all of them.
    outlet: Arc<Mutex<FamilyOutlet>>,
    metrics: WatchMetrics,
}

impl ClusterSink {
    fn outlet(&self) -> MutexGuard<'_, FamilyOutlet> {
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
