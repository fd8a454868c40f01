//! What becomes of flows that cannot be swept at once, with a table in place of the kernel's.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::*;
use crate::conntrack::{Filter, stale_candidates};
use crate::model::{
    Change, Endpoint, NodeHint, Service, ServiceName, ServicePort, ServiceState, Slice, SliceName,
    SlicePort,
};
use crate::net::{Protocol, parse_ip};
use crate::render::Options;
use crate::telemetry::Metrics;
use crate::tracker::Tracker;

/// A table of these flows; each sweep ends as the script says, and well behind its end.
#[derive(Default)]
struct Table {
    flows: Vec<Flow>,
    script: VecDeque<FlowError>,
    asked: Vec<Vec<Filter>>,
    /// Told before the flows are looked at.
    meanwhile: Option<(Sender<News>, News)>,
}

impl FlowTable for Table {
    fn sweep(
        &mut self,
        _: IpFamily,
        filters: &[Filter],
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> (u64, Result<(), FlowError>) {
        self.asked.push(filters.to_vec());
        if let Some((sender, news)) = self.meanwhile.take() {
            sender.send(news).unwrap();
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

fn follower(table: Table) -> (Sender<News>, Follower<Table>) {
    #[expect(clippy::disallowed_methods, reason = "nothing waits here")]
    let clock = Instant::now;
    let (sender, news) = channel();
    let follower = Follower {
        table,
        metrics: Metrics::new().unwrap().sync,
        clock,
        news,
        pending: PerFamily::from_fn(|_| Pending::default()),
        failures: 0,
        is_unavailable: false,
    };
    (sender, follower)
}

fn flow(destination: &str, reply_source: &str) -> Flow {
    Flow {
        destination: destination.parse::<SocketAddr>().unwrap(),
        reply_source: reply_source.parse().unwrap(),
    }
}

/// There is a Service without endpoints on this address, port 53.
fn news(ip: &str) -> News {
    news_with(ip, &[])
}

/// The same, with these endpoints.
fn news_with(ip: &str, endpoints: &[&str]) -> News {
    let service = Service::plain(
        parse_ip(ip).unwrap(),
        Box::new([ServicePort {
            name: "p".into(),
            protocol: Protocol::Udp,
            port: 53.try_into().unwrap(),
            node_port: None,
        }]),
    );
    let name = ServiceName::new("ns", "shop");
    let mut tracker = Tracker::new(std::time::SystemTime::UNIX_EPOCH);
    tracker.apply(Change::Service(name.clone(), Some(Box::new(service))));
    let endpoint = |ip: &&str| Endpoint {
        ip: parse_ip(ip).unwrap(),
        is_ready: true,
        is_serving: true,
        is_terminating: false,
        is_local: false,
        node_hint: NodeHint::Absent,
        zone_hints: Box::default(),
    };
    let slice = Slice {
        service: name.clone(),
        ports: Box::new([SlicePort {
            name: "p".into(),
            protocol: Protocol::Udp,
            number: 53.try_into().unwrap(),
        }]),
        endpoints: endpoints.iter().map(endpoint).collect(),
    };
    let slice_name = SliceName::new("ns", "shop-1");
    tracker.apply(Change::Slice(slice_name, Some(Box::new(slice)), None));
    let options = Options::defaults(IpFamily::V4);
    let before = [(name, ServiceState::default())];
    News {
        family: IpFamily::V4,
        candidates: stale_candidates(&before, &tracker, &options),
        node_ports: NodePortAddresses::All,
    }
}

#[test]
fn what_failed_is_done_with_what_came_since() {
    let kept = flow("10.96.0.12:53", "10.4.0.1:53");
    let (_sender, mut follower) = follower(Table {
        flows: vec![
            flow("10.96.0.10:53", "10.4.0.1:53"),
            flow("10.96.0.11:53", "10.4.0.1:53"),
            kept,
        ],
        script: [NO_MEMORY, NO_MEMORY].into(),
        ..Table::default()
    });
    note(&mut follower.pending, news("10.96.0.10"));
    assert_eq!(follower.sweep(IpFamily::V4), Err(NO_MEMORY));
    note(&mut follower.pending, news("10.96.0.11"));
    assert_eq!(follower.sweep(IpFamily::V4), Err(NO_MEMORY));
    assert_eq!(follower.sweep(IpFamily::V4), Ok(()));
    assert_eq!(follower.table.flows, [kept]);
    let asked = follower.table.asked.iter().map(Vec::len);
    assert_eq!(asked.collect::<Vec<_>>(), [1, 2, 2]);
    // It is done: nothing is asked for again.
    assert_eq!(follower.sweep(IpFamily::V4), Ok(()));
    assert_eq!(follower.table.asked.len(), 3);
}

#[test]
fn what_comes_while_it_looks_is_looked_for_next() {
    let (sender, mut follower) = follower(Table {
        flows: vec![
            flow("10.96.0.10:53", "10.4.0.1:53"),
            flow("10.96.0.11:53", "10.4.0.1:53"),
        ],
        ..Table::default()
    });
    follower.table.meanwhile = Some((sender, news("10.96.0.11")));
    note(&mut follower.pending, news("10.96.0.10"));
    assert_eq!(follower.sweep(IpFamily::V4), Ok(()));
    assert_eq!(follower.table.flows.len(), 1);
    assert_eq!(follower.sweep(IpFamily::V4), Ok(()));
    assert!(follower.table.flows.is_empty());
}

#[test]
fn an_endpoint_that_comes_while_it_looks_keeps_its_flows() {
    let flow = flow("10.96.0.10:53", "10.4.0.1:53");
    let (sender, mut follower) = follower(Table {
        flows: vec![flow],
        ..Table::default()
    });
    follower.table.meanwhile = Some((sender, news_with("10.96.0.10", &["10.4.0.1"])));
    note(&mut follower.pending, news("10.96.0.10"));
    assert_eq!(follower.sweep(IpFamily::V4), Ok(()));
    assert_eq!(follower.table.flows, [flow]);
}

#[test]
fn errors_that_last_are_told_from_others() {
    for errno in [Errno::EPERM, Errno::EINVAL, Errno::EPROTONOSUPPORT] {
        assert_eq!(FlowError::from(errno), FlowError::Unavailable(errno));
    }
    for errno in [Errno::ENOBUFS, Errno::EAGAIN, Errno::EBADMSG] {
        assert_eq!(FlowError::from(errno), FlowError::Incomplete(errno));
    }
}

#[test]
fn a_kernel_without_a_table_is_asked_again_only_for_new_reasons() {
    let no_table = FlowError::Unavailable(Errno::EPERM);
    let (_sender, mut follower) = follower(Table {
        script: [no_table, no_table].into(),
        ..Table::default()
    });
    for _ in 0..2 {
        note(&mut follower.pending, news("10.96.0.10"));
        assert_eq!(follower.sweep(IpFamily::V4), Ok(()));
        assert!(follower.is_unavailable);
        assert_eq!(follower.sweep(IpFamily::V4), Ok(()));
    }
    assert_eq!(follower.table.asked.len(), 2);
    note(&mut follower.pending, news("10.96.0.10"));
    assert_eq!(follower.sweep(IpFamily::V4), Ok(()));
    assert!(!follower.is_unavailable);
}

#[test]
fn waits_grow_and_end() {
    let seconds =
        [1, 2, 3, 6, 7, 100].map(|failures| retry_after(failures, LONGEST_PAUSE).as_secs());
    assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    let millis = |took| rest(Duration::from_millis(took)).as_millis();
    assert_eq!([0, 20, 125, 9000].map(millis), [0, 80, 500, 500]);
}
