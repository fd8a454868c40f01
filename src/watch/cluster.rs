//! Follows the Services, EndpointSlices and the Node of an API server: ingests them, and counts
//! failures.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::api::{ApiClient, Observer, ReflectorEvent, Selector, list_and_watch, server_version};
use super::changes::{Ingester, SourceEvent};
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use crate::model::Kind;
use crate::net::Locked;
use crate::telemetry::{KubernetesBuild, Metrics, WatchMetrics};

/// Time between two requests for the version of the server, which an upgrade changes.
const VERSION_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Time until the next request after one that failed.
const VERSION_RETRY_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Maximum time of such a request. At the start, all others wait for it.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Lists and watches Services, EndpointSlices and this Node, and sends their changes, until
/// dropped.
pub(crate) async fn follow(
    server: &ApiClient,
    node_name: &str,
    ingester: Ingester,
    metrics: &Metrics,
) {
    let shared = &Shared {
        ingester: Locked::new(ingester),
        metrics: &metrics.watch,
    };
    for kind in Kind::ALL {
        metrics.watch.ages.start(kind.as_str());
    }
    let mut services = ClusterObserver {
        shared,
        kind: Kind::Service,
        ingest: |ingester, event: SourceEvent<ServiceObject>| ingester.service(event),
    };
    let mut slices = ClusterObserver {
        shared,
        kind: Kind::EndpointSlice,
        ingest: |ingester, event: SourceEvent<EndpointSliceObject>| ingester.endpoint_slice(event),
    };
    let mut node = ClusterObserver {
        shared,
        kind: Kind::Node,
        ingest: |ingester, event: SourceEvent<NodeObject>| ingester.node(event),
    };
    let selectors = (
        Selector::services(),
        Selector::slices(),
        Selector::node(node_name),
    );
    // The HTTP library knows only after a TLS handshake whether a server has HTTP/2. Lists that
    // begin at the same moment would each make one: a high load when all nodes start at once.
    let next = read_version(server, &metrics.build).await;
    tokio::join!(
        list_and_watch(server, &selectors.0, &mut services),
        list_and_watch(server, &selectors.1, &mut slices),
        list_and_watch(server, &selectors.2, &mut node),
        follow_version(server, &metrics.build, next),
    );
}

/// Keeps the metric of the server version up to date, first after `next`.
async fn follow_version(server: &ApiClient, build: &KubernetesBuild, mut next: Duration) {
    loop {
        sleep(next).await;
        next = read_version(server, build).await;
    }
}

/// Sets the metric of the server version. Returns the time until the next request for it.
async fn read_version(server: &ApiClient, build: &KubernetesBuild) -> Duration {
    match timeout(VERSION_TIMEOUT, server_version(server)).await {
        Ok(Ok(version)) => {
            tracing::debug!(%version, "read the version of the API server");
            build.set(version);
            VERSION_INTERVAL
        }
        Ok(Err(error)) => {
            let error = error.in_full();
            tracing::debug!(error, "cannot read the version of the API server");
            VERSION_RETRY_INTERVAL
        }
        Err(_) => VERSION_RETRY_INTERVAL,
    }
}

/// Parts that the observers of all kinds share.
struct Shared<'a> {
    /// One for all kinds, so that equal strings of all kinds are stored once. The lock never waits,
    /// since all three run in one task.
    ingester: Locked<Ingester>,
    metrics: &'a WatchMetrics,
}

/// Observer of one kind: ingests its objects, and counts failures and undecodable objects.
struct ClusterObserver<'a, K> {
    shared: &'a Shared<'a>,
    kind: Kind,
    ingest: fn(&mut Ingester, SourceEvent<K>),
}

impl<K: Send + 'static> Observer<K> for ClusterObserver<'_, K> {
    fn on_source_event(&mut self, event: SourceEvent<K>) {
        (self.ingest)(&mut self.shared.ingester.lock(), event);
    }

    /// Counts failures and undecodable objects, and notes when the objects are current. Marks an
    /// object that cannot be decoded: otherwise the end of the list would delete it.
    fn on_reflector_event(&mut self, event: ReflectorEvent<'_>) {
        let kind = self.kind.as_str();
        match event {
            ReflectorEvent::Current => self.shared.metrics.ages.current(kind),
            ReflectorEvent::Failed { .. } => {
                self.shared.metrics.errors.with_label_values(&[kind]).inc();
            }
            ReflectorEvent::Undecodable(undecodable) => {
                let counters = &self.shared.metrics.undecodable;
                counters.with_label_values(&[kind]).inc();
                let name = &undecodable.name;
                self.shared
                    .ingester
                    .lock()
                    .keep(self.kind, &name.namespace, &name.name);
            }
        }
    }
}
