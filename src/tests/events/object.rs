//! Objects as client-go makes them.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::model::ServiceName;

impl Origin {
    pub(crate) fn sample() -> Self {
        Self {
            node_name: "node1".to_owned(),
            host_name: "host1".to_owned(),
        }
    }
}

/// 2026-11-21T02:47:16.7195486Z.
fn at() -> SystemTime {
    UNIX_EPOCH + Duration::new(1_795_229_236, 719_548_645)
}

#[test]
fn an_event_about_the_node() {
    let object = object(&Event::Starting, &Origin::sample(), at());
    let expected = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default", "name": "node1.18e9ef7ab11078e5"},
        "eventTime": "2026-11-21T02:47:16.719548Z",
        "reportingController": "kube-proxy",
        "reportingInstance": "kube-proxy-host1",
        "action": "StartKubeProxy",
        "reason": "Starting",
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": "node1"},
        "note": "",
        "type": "Normal",
    });
    assert_eq!(json!(object), expected);
}

#[test]
fn an_event_about_a_service() {
    let event = Event::CheckNotServed(ServiceName::new("shop", "lb"), "taken".to_owned());
    let object = json!(object(&event, &Origin::sample(), at()));
    let regarding =
        json!({"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "lb"});
    assert_eq!(object["regarding"], regarding);
    assert_eq!(object["metadata"]["namespace"], "shop");
    let name = object["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("lb."), "{name}");
}

/// Alerts match them. The two others are compared with kube-proxy's by
/// `operators_are_told_what_kube_proxy_tells`.
#[test]
fn events_of_a_process_that_ends_are_kube_proxy_s() {
    for (event, reason) in [
        (
            Event::HealthNotServed(String::new()),
            "FailedToStartProxierHealthcheck",
        ),
        (
            Event::MetricsNotServed(String::new()),
            "FailedToStartMetricServer",
        ),
    ] {
        let fields = event.fields();
        let found = (fields.reason, fields.severity, fields.action);
        assert_eq!(found, (reason, "Warning", "StartKubeProxy"));
    }
}

#[test]
fn times_have_six_decimals_and_notes_an_end() {
    let whole = UNIX_EPOCH + Duration::from_secs(1_795_229_236);
    assert_eq!(json!(micro_time(whole)), "2026-11-21T02:47:16.000000Z");
    assert_eq!(shortened("short"), "short");
    let long = "ü".repeat(600);
    assert_eq!(shortened(&long), "ü".repeat(512));
    let odd = format!("a{long}");
    assert_eq!(shortened(&odd).len(), 1023);
}
