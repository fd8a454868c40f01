//! Follows the three kinds of objects of an API server: ingests them, and counts failures.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::api::{ApiClient, Observer, ReflectorEvent, Selector, list_and_watch};
use super::ingester::{Ingester, Observed};
use crate::ingest::{EndpointSliceObject, NodeObject, ServiceObject};
use crate::model::Kind;
use crate::telemetry::WatchMetrics;

/// Lists and watches Services, EndpointSlices and this Node, and sends their changes, until
/// dropped.
pub(crate) async fn follow(
    server: &ApiClient,
    node_name: &str,
    ingester: Ingester,
    metrics: &WatchMetrics,
) {
    let ingester = Arc::new(Mutex::new(ingester));
    let observer = || ClusterObserver {
        ingester: Arc::clone(&ingester),
        metrics: metrics.clone(),
    };
    let (mut services, mut slices, mut node) = (observer(), observer(), observer());
    for kind in [Kind::Service, Kind::EndpointSlice, Kind::Node] {
        metrics.ages.start(kind.as_str());
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
    );
}

/// Observer of one kind: ingests its objects, keeps undecodable ones, and counts failures.
struct ClusterObserver {
    /// Shared by the three kinds, so that equal strings are shared; one thread runs them all.
    ingester: Arc<Mutex<Ingester>>,
    metrics: WatchMetrics,
}

impl ClusterObserver {
    fn ingester(&self) -> MutexGuard<'_, Ingester> {
        self.ingester.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event, and keeps objects that cannot be decoded: without
    /// [`Ingester::keep`], the sweep at the end of the list would delete them, because they were
    /// not set.
    fn handle(&self, kind: Kind, event: &ReflectorEvent<'_>) {
        match event {
            ReflectorEvent::Connected => {}
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
    async fn observe(&mut self, observed: Observed<ServiceObject>) {
        self.ingester().service(observed);
    }

    fn handle_event(&mut self, event: ReflectorEvent<'_>) {
        self.handle(Kind::Service, &event);
    }
}

impl Observer<EndpointSliceObject> for ClusterObserver {
    async fn observe(&mut self, observed: Observed<EndpointSliceObject>) {
        self.ingester().endpoint_slice(observed);
    }

    fn handle_event(&mut self, event: ReflectorEvent<'_>) {
        self.handle(Kind::EndpointSlice, &event);
    }
}

impl Observer<NodeObject> for ClusterObserver {
    async fn observe(&mut self, observed: Observed<NodeObject>) {
        self.ingester().node(observed);
    }

    fn handle_event(&mut self, event: ReflectorEvent<'_>) {
        self.handle(Kind::Node, &event);
    }
}
