//! Tests of the tracker: what is dirty after which changes, and which times are measured.

mod changes;
mod frontends;
mod limits;
mod queue;
mod triggers;

use std::time::{Duration, SystemTime};

use super::Tracker;
use crate::model::{
    Change, Endpoint, Kind, Node, Service, ServiceName, ServicePort, Slice, SliceName, Topology,
};
use crate::net::{Port, Protocol, parse_ip};

const STARTED: SystemTime = SystemTime::UNIX_EPOCH;

fn name(name: &str) -> ServiceName {
    ServiceName::new("ns", name)
}

fn port(number: u16) -> Port {
    Port::new(number).unwrap()
}

/// The Service is there, with a cluster IP of its own and one port of this number.
fn service(of: &str, number: u16) -> Change {
    let service = Service::plain(
        parse_ip(&format!("172.30.0.{}", of.as_bytes()[0])).unwrap(),
        Box::new([ServicePort::tcp("p", number)]),
    );
    Change::Service(name(of), Some(Box::new(service)))
}

/// A change of a Service on port 80 that was edited.
fn edited(of: &str, edit: impl FnOnce(&mut Service)) -> Change {
    let Change::Service(name, Some(mut changed)) = service(of, 80) else {
        unreachable!("it is there");
    };
    edit(&mut changed);
    Change::Service(name, Some(changed))
}

fn no_service(of: &str) -> Change {
    Change::Service(name(of), None)
}

/// The slice is there and holds these addresses; `second` is when the cluster changed it.
fn slice(called: &str, of: &str, ips: &[&str], second: Option<u64>) -> Change {
    let endpoint = |ip: &&str| Endpoint::ready(parse_ip(ip).unwrap());
    let slice = Slice::tcp(name(of), ("p", 80), ips.iter().map(endpoint));
    let at = second.map(|second| STARTED + Duration::from_secs(second));
    Change::Slice(SliceName::new("ns", called), Some(Box::new(slice)), at)
}

fn no_slice(called: &str) -> Change {
    Change::Slice(SliceName::new("ns", called), None, None)
}

fn zone(zone: Option<&str>) -> Change {
    Change::Node(Some(Box::new(Node {
        topology: Topology {
            zone: zone.map(Into::into),
        },
        ..Node::default()
    })))
}

fn tell(tracker: &mut Tracker, changes: impl IntoIterator<Item = Change>) {
    for change in changes {
        tracker.apply(change);
    }
}

/// A tracker for which `changes` are history.
fn applied(changes: impl IntoIterator<Item = Change>) -> Tracker {
    let mut tracker = Tracker::new(STARTED);
    tell(&mut tracker, changes);
    tracker.mark_applied();
    tracker
}
