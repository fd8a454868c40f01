//! Syncs over a kernel that is played.

use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::host::Fake;
use crate::model::{Change, Kind, Service, ServiceName, ServicePort};
use crate::net::{Port, Protocol};
use crate::render::PartialRestore;
use crate::tracker::Tracker;

/// How often a sync is full.
pub(super) const PERIOD: Duration = Duration::from_secs(3600);

/// A Service, or its deletion.
pub(super) fn service(number: u8, is_there: bool) -> Change {
    let service = Service::plain(
        IpAddr::from([10, 96, 0, number]),
        Box::new([ServicePort {
            name: "p".into(),
            protocol: Protocol::Tcp,
            port: Port::new(80).unwrap(),
            node_port: None,
        }]),
    );
    let name = ServiceName::new("ns", &number.to_string());
    Change::Service(name, is_there.then(|| Box::new(service)))
}

/// Knows of one Service, and has done nothing.
pub(super) fn syncer(clock: Clock, node_ports: NodePortSource) -> Syncer<Fake> {
    let options = SyncerOptions {
        surroundings: Surroundings {
            fixed: options(IpFamily::V4),
            local_mode: LocalMode::ClusterCidr(Vec::new()),
            node_ports,
            bind_address: None,
        },
        shape: PartialRestore::ChangedChains,
        full_every: PERIOD,
    };
    let mut tracker = Tracker::new(SystemTime::UNIX_EPOCH);
    for kind in [Kind::Service, Kind::EndpointSlice, Kind::Node] {
        tracker.apply(Change::Listing(kind));
    }
    tracker.apply(service(1, true));
    for kind in [Kind::Service, Kind::EndpointSlice, Kind::Node] {
        tracker.apply(Change::Listed(kind));
    }
    Syncer::new(Fake::default(), tracker, options, clock)
}

#[expect(
    clippy::disallowed_methods,
    reason = "an Instant cannot be made otherwise"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The same after a first full sync.
pub(super) async fn synced() -> Syncer<Fake> {
    let mut syncer = syncer(now, NodePortSource::All);
    let outcome = syncer.once(&[]).await;
    assert_eq!(outcome.end(), End::Applied, "{outcome:?}");
    syncer.iptables().take_payloads();
    syncer
}
