//! Failed sweeps are retried and merged with later requests, over a scripted conntrack table.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::*;
use crate::conntrack::{Filter, stale_candidates};
use crate::model::{
    Change, Endpoint, Service, ServiceName, ServicePort, ServiceState, Slice, SliceName,
};
use crate::net::{Protocol, parse_ip};
use crate::render::Options;
use crate::telemetry::Metrics;
use crate::tracker::Tracker;

/// Table with these entries; each sweep ends as scripted, and succeeds after the end of the
/// script.
#[derive(Default)]
struct Table {
    flows: Vec<Flow>,
    script: VecDeque<FlowError>,
    filters: Vec<Vec<Filter>>,
    /// Sent before the entries are examined.
    meanwhile: Option<(Sender<SweepRequest>, SweepRequest)>,
}

impl FlowTable for Table {
    fn sweep(
        &mut self,
        _: IpFamily,
        filters: &[Filter],
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> (u64, Result<(), FlowError>) {
        self.filters.push(filters.to_vec());
        if let Some((sender, request)) = self.meanwhile.take() {
            sender.send(request).unwrap();
        }
        if let Some(error) = self.script.pop_front() {
            return (0, Err(error));
        }
        let before = self.flows.len();
        self.flows.retain(|flow| !is_stale(flow));
        ((before - self.flows.len()) as u64, Ok(()))
    }
}

const NO_MEMORY: FlowError = FlowError::Incomplete(Errno::ENOMEM);

fn sweeper(table: Table) -> (Sender<SweepRequest>, SweeperThread<Table>) {
    #[expect(clippy::disallowed_methods, reason = "nothing waits here")]
    let clock = Instant::now;
    let (sender, requests) = channel();
    let sweeper = SweeperThread {
        table,
        metrics: Metrics::new().unwrap().sync,
        clock,
        requests,
        pending: PerFamily::from_fn(|_| PendingSweep::default()),
        failures: 0,
        is_unavailable: false,
    };
    (sender, sweeper)
}

/// Entry of packets to port 53 of this address, which 10.4.0.1 answers.
fn flow(ip: &str) -> Flow {
    Flow {
        destination: SocketAddr::new(parse_ip(ip).unwrap(), 53),
        reply_source: "10.4.0.1:53".parse().unwrap(),
    }
}

/// Request for a Service without endpoints on this address, port 53.
fn request(ip: &str) -> SweepRequest {
    request_with(ip, &[])
}

/// Request for a Service with these endpoints.
fn request_with(ip: &str, endpoints: &[&str]) -> SweepRequest {
    let mut port = ServicePort::tcp("p", 53);
    port.protocol = Protocol::Udp;
    let service = Service::plain(parse_ip(ip).unwrap(), Box::new([port]));
    let name = ServiceName::new("ns", "shop");
    let mut tracker = Tracker::new(std::time::SystemTime::UNIX_EPOCH);
    tracker.apply(Change::Service(name.clone(), Some(Box::new(service))));
    let endpoint = |ip: &&str| Endpoint::ready(parse_ip(ip).unwrap());
    let mut slice = Slice::tcp(name.clone(), ("p", 53), endpoints.iter().map(endpoint));
    slice.ports[0].protocol = Protocol::Udp;
    let slice_name = SliceName::new("ns", "shop-1");
    tracker.apply(Change::Slice(slice_name, Some(Box::new(slice)), None));
    let options = Options::defaults(IpFamily::V4);
    let before = [(name, ServiceState::default())];
    SweepRequest {
        family: IpFamily::V4,
        candidates: stale_candidates(&before, &tracker, &options),
        node_port_addresses: NodePortAddresses::All,
    }
}

#[test]
fn failed_requests_are_merged_with_later_ones() {
    let kept = flow("10.96.0.12");
    let (_sender, mut sweeper) = sweeper(Table {
        flows: vec![flow("10.96.0.10"), flow("10.96.0.11"), kept],
        script: [NO_MEMORY, NO_MEMORY].into(),
        ..Table::default()
    });
    merge_request(&mut sweeper.pending, request("10.96.0.10"));
    assert_eq!(sweeper.sweep(IpFamily::V4), Err(NO_MEMORY));
    merge_request(&mut sweeper.pending, request("10.96.0.11"));
    assert_eq!(sweeper.sweep(IpFamily::V4), Err(NO_MEMORY));
    assert_eq!(sweeper.sweep(IpFamily::V4), Ok(()));
    assert_eq!(sweeper.table.flows, [kept]);
    let filters = sweeper.table.filters.iter().map(Vec::len);
    assert_eq!(filters.collect::<Vec<_>>(), [1, 2, 2]);
    // Done: nothing is swept for again.
    assert_eq!(sweeper.sweep(IpFamily::V4), Ok(()));
    assert_eq!(sweeper.table.filters.len(), 3);
}

#[test]
fn requests_during_a_sweep_are_served_by_the_next_one() {
    let (sender, mut sweeper) = sweeper(Table {
        flows: vec![flow("10.96.0.10"), flow("10.96.0.11")],
        ..Table::default()
    });
    sweeper.table.meanwhile = Some((sender, request("10.96.0.11")));
    merge_request(&mut sweeper.pending, request("10.96.0.10"));
    assert_eq!(sweeper.sweep(IpFamily::V4), Ok(()));
    assert_eq!(sweeper.table.flows.len(), 1);
    assert_eq!(sweeper.sweep(IpFamily::V4), Ok(()));
    assert!(sweeper.table.flows.is_empty());
}

#[test]
fn an_endpoint_added_during_a_sweep_keeps_its_conntrack_entries() {
    let flow = flow("10.96.0.10");
    let (sender, mut sweeper) = sweeper(Table {
        flows: vec![flow],
        ..Table::default()
    });
    sweeper.table.meanwhile = Some((sender, request_with("10.96.0.10", &["10.4.0.1"])));
    merge_request(&mut sweeper.pending, request("10.96.0.10"));
    assert_eq!(sweeper.sweep(IpFamily::V4), Ok(()));
    assert_eq!(sweeper.table.flows, [flow]);
}

#[test]
fn permanent_errors_are_not_retried() {
    for errno in [Errno::EPERM, Errno::EINVAL, Errno::EPROTONOSUPPORT] {
        assert_eq!(FlowError::from(errno), FlowError::Unavailable(errno));
    }
    for errno in [Errno::ENOBUFS, Errno::EAGAIN, Errno::EBADMSG] {
        assert_eq!(FlowError::from(errno), FlowError::Incomplete(errno));
    }
}

#[test]
fn a_kernel_without_a_table_is_read_again_only_for_new_reasons() {
    let no_table = FlowError::Unavailable(Errno::EPERM);
    let (_sender, mut sweeper) = sweeper(Table {
        script: [no_table, no_table].into(),
        ..Table::default()
    });
    for _ in 0..2 {
        merge_request(&mut sweeper.pending, request("10.96.0.10"));
        assert_eq!(sweeper.sweep(IpFamily::V4), Ok(()));
        assert!(sweeper.is_unavailable);
        assert_eq!(sweeper.sweep(IpFamily::V4), Ok(()));
    }
    assert_eq!(sweeper.table.filters.len(), 2);
    merge_request(&mut sweeper.pending, request("10.96.0.10"));
    assert_eq!(sweeper.sweep(IpFamily::V4), Ok(()));
    assert!(!sweeper.is_unavailable);
}

#[test]
fn waits_grow_and_end() {
    let seconds = [1, 2, 3, 6, 7, 100].map(|failures| RETRY_DELAY.after(failures).as_secs());
    assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    let millis = |took| pause_after(Duration::from_millis(took)).as_millis();
    assert_eq!([0, 20, 125, 9000].map(millis), [0, 80, 500, 500]);
}
