//! Source of changes: three kinds of objects of the API server, or manifests.
//!
//! Opening is separate from following, so that a missing source is reported before anything on the
//! node is changed.

use std::path::PathBuf;

use crate::config::{RenderConfig, Source, Unusable, environment};
use crate::events::Writer;
use crate::telemetry::{Metrics, WatchMetrics};
use crate::watch::api::{self, ApiClient, ClientConfigError};
use crate::watch::manifests::{self, ManifestOptions};
use crate::watch::{ChangeSenders, Ingester, cluster};

/// Source that exists. No request was sent to it yet.
pub(super) enum OpenedSource {
    /// API server; it may be unreachable.
    Cluster(ApiClient),
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
            let proxies = environment::proxies();
            let server =
                api::build_counted_client(options, &proxies, Some(&metrics.requests)).await;
            Ok(OpenedSource::Cluster(server.map_err(connect_error)?))
        }
        Source::Manifests { path, .. } => {
            manifests::check_path(path)?;
            let options = config.manifest_options();
            Ok(OpenedSource::Manifests(path.clone(), options))
        }
    }
}

/// Converts an error of connecting. The default of a Pod's service account was not chosen by the
/// user, so its failure is a missing flag.
pub(crate) fn connect_error(error: ClientConfigError) -> anyhow::Error {
    match error {
        ClientConfigError::InCluster(_) => Unusable::without_source().into(),
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
    changes: ChangeSenders,
    metrics: &Metrics,
    writer: Option<Writer>,
) -> anyhow::Result<()> {
    let ingester = Ingester::new(changes, node_name.into());
    match source {
        OpenedSource::Cluster(server) => {
            let follow = cluster::follow(&server, node_name, ingester, metrics);
            match writer {
                // Watches take precedence over Events.
                Some(writer) => {
                    let _ = tokio::join!(biased; follow, writer.run(&server));
                }
                None => follow.await,
            }
        }
        OpenedSource::Manifests(path, options) => {
            manifests::follow(path, options, &metrics.manifests, ingester).await?;
        }
    }
    Ok(())
}
