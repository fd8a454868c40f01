//! Threads that stall, one at a time.

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::*;
use crate::health::{Health, NodeState};
use crate::net::IpFamily;
use crate::telemetry::Metrics;

const HOUR: Duration = Duration::from_secs(3600);

fn pages() -> HealthPages {
    let health = Health::new(Duration::from_secs(30));
    health.update(|health| health.node(NodeState::Eligible));
    health.update(|health| health.queued(IpFamily::V4, clock::instant()));
    let metrics = Metrics::new().unwrap();
    HealthPages {
        health,
        metrics: metrics.health,
    }
}

fn ask(watchdog: &Watchdog, path: &str) -> Reply {
    let request = Request::get(path).body(Bytes::new()).unwrap();
    watchdog.answer(&pages(), &request)
}

async fn body(watchdog: &Watchdog, path: &str) -> Value {
    let body = ask(watchdog, path).into_body().collect().await.unwrap();
    serde_json::from_slice(&body.to_bytes()).unwrap()
}

/// The thread was last heard of so long ago.
fn silence(watchdog: &Watchdog, thread: &str, time: Duration) {
    let mut threads = watchdog.threads.lock();
    let watched = threads.iter_mut().find(|watched| watched.thread == thread);
    watched.unwrap().last = clock::instant().checked_sub(time).unwrap();
}

#[tokio::test]
async fn one_stalled_thread_is_unhealthy_and_named() {
    let patience = Duration::from_secs(20);
    let watchdog = Watchdog::new(patience);
    let heartbeats = ["main", "IPv4", "IPv6"].map(|thread| watchdog.watch(thread));
    for path in ["/livez", "/healthz"] {
        assert_eq!(ask(&watchdog, path).status(), StatusCode::OK);
        assert_eq!(body(&watchdog, path).await.get("stalledThreads"), None);
    }
    silence(&watchdog, "IPv6", patience);
    for path in ["/livez", "/healthz"] {
        let status = ask(&watchdog, path).status();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        let body = body(&watchdog, path).await;
        assert_eq!(body["stalledThreads"], json!(["IPv6"]));
        assert_eq!(body["healthy"], false);
        assert!(body["lastUpdated"].is_string());
    }
    assert_eq!(ask(&watchdog, "/other").status(), StatusCode::NOT_FOUND);
    // A thread that has ended its work is not missed.
    drop(heartbeats);
    assert_eq!(ask(&watchdog, "/livez").status(), StatusCode::OK);
}

#[tokio::test]
async fn a_heartbeat_ends_the_stall_of_its_own_thread_only() {
    let watchdog = Watchdog::new(HOUR);
    let [v4, _v6] = ["IPv4", "IPv6"].map(|thread| watchdog.watch(thread));
    for thread in ["IPv4", "IPv6"] {
        silence(&watchdog, thread, HOUR);
    }
    assert_eq!(watchdog.stalled(), ["IPv4", "IPv6"]);
    let beats = tokio::time::timeout(Duration::from_millis(1), v4.beat::<()>()).await;
    assert!(beats.is_err());
    assert_eq!(watchdog.stalled(), ["IPv6"]);
}

#[tokio::test]
async fn heartbeats_go_on() {
    let patience = Duration::from_millis(100);
    let watchdog = Watchdog::new(patience);
    let heartbeat = watchdog.watch("main");
    let born = clock::instant();
    let beats = tokio::time::timeout(patience, heartbeat.beat::<()>()).await;
    assert!(beats.is_err());
    assert!(watchdog.threads.lock()[0].last > born + patience / 3);
}
