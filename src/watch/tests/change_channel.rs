//! Changes between threads: taken together, counted one by one.

use futures::FutureExt;
use prometheus::TextEncoder;

use super::*;
use crate::model::{ServiceName, Topology};
use crate::telemetry::Metrics;

fn gone(service: &str) -> Change {
    Change::Service(ServiceName::new("ns", service), None)
}

fn value(metrics: &Metrics, name: &str) -> String {
    let families = metrics.registry.gather();
    let text = TextEncoder::new().encode_to_string(&families).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}

fn of_v4(metrics: &Metrics) -> (ChangeSenders, ChangeReceiver) {
    let (senders, receivers) = change_channels(Some(&metrics.sync));
    (senders, receivers.families.v4)
}

#[test]
fn every_event_is_counted_and_one_change_of_each_object_is_taken() {
    let metrics = Metrics::new().unwrap();
    let (sender, mut receiver) = of_v4(&metrics);
    assert_eq!(receiver.recv().now_or_never(), None, "nothing to take");
    for _ in 0..60 {
        sender.send(IpFamily::V4, Change::Node(Some(Box::default())));
        sender.send(IpFamily::V4, gone("a"));
    }
    let node = Change::Node(Some(Box::default()));
    let taken = receiver.recv().now_or_never();
    assert_eq!(taken, Some(Some(vec![node])));
    let total = "kubeproxy_sync_proxy_rules_service_changes_total";
    assert_eq!(value(&metrics, total), "60");
    sender.send(IpFamily::V4, Change::Listed(Kind::Node));
    drop(sender);
    let last = receiver.recv().now_or_never();
    assert_eq!(last, Some(Some(vec![Change::Listed(Kind::Node)])));
    assert_eq!(receiver.recv().now_or_never(), Some(None));
}

#[test]
fn changes_of_a_disabled_family_are_dropped() {
    let metrics = Metrics::new().unwrap();
    let (sender, receiver) = of_v4(&metrics);
    drop(receiver);
    sender.send(IpFamily::V4, gone("a"));
    let total = "kubeproxy_sync_proxy_rules_service_changes_total";
    assert_eq!(value(&metrics, total), "0");
}

#[test]
fn the_node_of_the_first_list_is_sent_once() {
    let node = |zone: &str| {
        let zone = Some(zone.into());
        Box::new(Node {
            topology: Topology { zone },
            ..Node::default()
        })
    };
    let (mut senders, mut receivers) = change_channels(None);
    senders.send_both(Change::Node(Some(node("a"))));
    senders.send_both(Change::Listed(Kind::Service));
    assert!(receivers.first_node.try_recv().is_err());
    senders.send_both(Change::Node(Some(node("b"))));
    senders.send_both(Change::Listed(Kind::Node));
    assert_eq!(receivers.first_node.try_recv(), Ok(Some(node("b"))));
    senders.send_both(Change::Node(Some(node("c"))));
    senders.send_both(Change::Listed(Kind::Node));

    let (mut senders, mut receivers) = change_channels(None);
    senders.send_both(Change::Node(None));
    senders.send_both(Change::Listed(Kind::Node));
    assert_eq!(receivers.first_node.try_recv(), Ok(None));
}
