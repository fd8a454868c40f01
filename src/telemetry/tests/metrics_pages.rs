//! Pages of the metrics port, without a socket.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;

use super::{MetricsPages, PageSettings};
use crate::telemetry::Metrics;

pub(super) fn pages() -> MetricsPages {
    let settings = PageSettings {
        configz: "{}".into(),
        flags: BTreeMap::from([("v".to_owned(), "2".to_owned())]),
        debugging: None,
    };
    MetricsPages::new(Metrics::new().unwrap().registry, settings).unwrap()
}

async fn request(
    pages: &MetricsPages,
    method: Method,
    path: &str,
) -> (StatusCode, HeaderMap, String) {
    let builder = Request::builder().method(method).uri(path);
    let reply = pages.answer(&builder.body(Bytes::new()).unwrap());
    let (head, body) = reply.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    (head.status, head.headers, body)
}

async fn get(pages: &MetricsPages, path: &str) -> String {
    request(pages, Method::GET, path).await.2
}

#[tokio::test]
async fn verbose_healthz_lists_its_check() {
    let pages = pages();
    for (query, expected) in [
        ("", "ok"),
        ("verbose", "[+]ping ok\nhealthz check passed\n"),
        ("verbose=1", "[+]ping ok\nhealthz check passed\n"),
    ] {
        let text = get(&pages, &format!("/healthz?{query}")).await;
        assert_eq!(text, expected, "{query}");
    }
}

#[tokio::test]
async fn slis_count_healthz_results() {
    let pages = pages();
    let slis = || get(&pages, "/metrics/slis");
    let before = slis().await;
    assert!(!before.contains("kubernetes_healthcheck"), "{before}");
    assert!(before.contains("\nprocess_start_time_seconds "), "{before}");
    for _ in 0..2 {
        get(&pages, "/healthz").await;
    }
    get(&pages, "/healthz/ping").await;
    let after = slis().await;
    for line in [
        "# TYPE kubernetes_healthcheck gauge",
        "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1",
        "# TYPE kubernetes_healthchecks_total counter",
        "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 2",
    ] {
        let is_found = after.lines().any(|found| found == line);
        assert!(is_found, "{line} not in\n{after}");
    }
    assert_eq!(after.matches("[STABLE] ").count(), 2, "{after}");
    let (status, _, body) = request(&pages, Method::DELETE, "/metrics/slis").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "metrics reset\n"));
    assert_eq!(slis().await, before);
}
