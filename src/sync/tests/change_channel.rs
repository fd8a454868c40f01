//! Changes between threads: taken together, counted one by one.

use futures::FutureExt;
use prometheus::TextEncoder;

use super::*;
use crate::model::{Change, Kind, ServiceName};
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

#[test]
fn every_event_is_counted_and_one_change_of_each_object_is_taken() {
    let metrics = Metrics::new().unwrap();
    let (sender, mut receiver) = change_channel(metrics.sync.clone());
    assert_eq!(receiver.recv().now_or_never(), None, "nothing to take");
    for _ in 0..60 {
        sender.send(Change::Node(Some(Box::default())));
        sender.send(gone("a"));
    }
    let node = Change::Node(Some(Box::default()));
    let taken = receiver.recv().now_or_never();
    assert_eq!(taken, Some(Some(vec![node])));
    let total = "kubeproxy_sync_proxy_rules_service_changes_total";
    assert_eq!(value(&metrics, total), "60");
    sender.send(Change::Listed(Kind::Node));
    drop(sender);
    let last = receiver.recv().now_or_never();
    assert_eq!(last, Some(Some(vec![Change::Listed(Kind::Node)])));
    assert_eq!(receiver.recv().now_or_never(), Some(None));
}

#[test]
fn changes_of_a_disabled_family_are_dropped() {
    let metrics = Metrics::new().unwrap();
    let (sender, receiver) = change_channel(metrics.sync.clone());
    drop(receiver);
    sender.send(gone("a"));
    let total = "kubeproxy_sync_proxy_rules_service_changes_total";
    assert_eq!(value(&metrics, total), "0");
}

#[tokio::test(start_paused = true)]
async fn a_change_wakes_a_receiver_that_waits() {
    let (sender, mut receiver) = change_channel(Metrics::new().unwrap().sync);
    let task = tokio::spawn(async move { receiver.recv().await });
    tokio::task::yield_now().await;
    sender.send(Change::Listed(Kind::Node));
    assert_eq!(task.await.unwrap(), Some(vec![Change::Listed(Kind::Node)]));
}
