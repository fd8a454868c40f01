//! Follows the Services, EndpointSlices and the Node of an API server: ingests them, and counts
//! failures.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::api::{ApiClient, Observer, ReflectorEvent, Selector, list_and_watch, server_version};
use super::ingester::{Ingester, SourceEvent};
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use crate::model::Kind;
use crate::telemetry::{KubernetesBuild, Metrics, WatchMetrics};

/// Minimum time between two requests for the version of the server, which an upgrade changes.
const VERSION_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Lists and watches Services, EndpointSlices and this Node, and sends their changes, until
/// dropped.
pub(crate) async fn follow(
    server: &ApiClient,
    node_name: &str,
    ingester: Ingester,
    metrics: &Metrics,
) {
    let ingester = Arc::new(Mutex::new(ingester));
    let connected = Arc::new(Notify::new());
    let observer = || ClusterObserver {
        ingester: Arc::clone(&ingester),
        connected: Arc::clone(&connected),
        metrics: metrics.watch.clone(),
    };
    let (mut services, mut slices, mut node) = (observer(), observer(), observer());
    for kind in Kind::ALL {
        metrics.watch.ages.start(kind.as_str());
    }
    let selectors = (
        Selector::services(),
        Selector::slices(),
        Selector::node(node_name),
    );
    tokio::join!(
        list_and_watch::<ServiceObject, _>(server, &selectors.0, &mut services),
        list_and_watch::<EndpointSliceObject, _>(server, &selectors.1, &mut slices),
        list_and_watch::<NodeObject, _>(server, &selectors.2, &mut node),
        follow_version(server, &connected, &metrics.build),
    );
}

/// Keeps the metric of the server version up to date: requests `/version` after the first accepted
/// list or watch, and then after later ones, at most once per [`VERSION_INTERVAL`].
async fn follow_version(server: &ApiClient, connected: &Notify, build: &KubernetesBuild) {
    loop {
        connected.notified().await;
        match server_version(server).await {
            Ok(version) => {
                tracing::debug!(%version, "read the version of the API server");
                build.set(version);
            }
            Err(error) => {
                let error = error.in_full();
                tracing::debug!(error, "cannot read the version of the API server");
            }
        }
        sleep(VERSION_INTERVAL).await;
    }
}

/// Observer of one kind: ingests its objects, and counts failures and undecodable objects.
struct ClusterObserver {
    /// Shared by the three kinds, so that equal strings of all kinds are stored once. The lock
    /// never waits, since all three run in one task.
    ingester: Arc<Mutex<Ingester>>,
    /// Notified when the server accepts a list or watch.
    connected: Arc<Notify>,
    metrics: WatchMetrics,
}

impl ClusterObserver {
    fn ingester(&self) -> MutexGuard<'_, Ingester> {
        self.ingester.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts failures and undecodable objects, and notes when the objects are current. Marks an
    /// object that cannot be decoded: otherwise the end of the list would delete it.
    fn handle(&self, kind: Kind, event: &ReflectorEvent<'_>) {
        match event {
            ReflectorEvent::Connected => self.connected.notify_one(),
            ReflectorEvent::Current => self.metrics.ages.current(kind.as_str()),
            ReflectorEvent::Failed { .. } => self.metrics.failed(kind.as_str()),
            ReflectorEvent::Undecodable(undecodable) => {
                self.metrics.undecodable(kind.as_str());
                let name = &undecodable.name;
                self.ingester().keep(kind, &name.namespace, &name.name);
            }
        }
    }
}

impl Observer<ServiceObject> for ClusterObserver {
    async fn on_source_event(&mut self, event: SourceEvent<ServiceObject>) {
        self.ingester().service(event);
    }

    fn on_reflector_event(&mut self, event: ReflectorEvent<'_>) {
        self.handle(Kind::Service, &event);
    }
}

impl Observer<EndpointSliceObject> for ClusterObserver {
    async fn on_source_event(&mut self, event: SourceEvent<EndpointSliceObject>) {
        self.ingester().endpoint_slice(event);
    }

    fn on_reflector_event(&mut self, event: ReflectorEvent<'_>) {
        self.handle(Kind::EndpointSlice, &event);
    }
}

impl Observer<NodeObject> for ClusterObserver {
    async fn on_source_event(&mut self, event: SourceEvent<NodeObject>) {
        self.ingester().node(event);
    }

    fn on_reflector_event(&mut self, event: ReflectorEvent<'_>) {
        self.handle(Kind::Node, &event);
    }
}
