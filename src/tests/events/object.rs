//! Objects as client-go makes them.

use std::time::Duration;

use serde_json::json;

use super::*;

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
fn times_have_six_decimals_and_notes_an_end() {
    let whole = UNIX_EPOCH + Duration::from_secs(1_795_229_236);
    assert_eq!(json!(micro_time(whole)), "2026-11-21T02:47:16.000000Z");
    assert_eq!(shortened("short"), "short");
    let long = "ü".repeat(600);
    assert_eq!(shortened(&long), "ü".repeat(512));
    let odd = format!("a{long}");
    assert_eq!(shortened(&odd).len(), 1023);
}
