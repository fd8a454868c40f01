//! The pages of the metrics port, without a socket.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;

use super::MetricsPages;
use crate::telemetry::Metrics;

async fn get(configz: Option<Bytes>, path: &str) -> (StatusCode, String, String) {
    let registry = Metrics::new().unwrap().registry;
    let request = Request::get(path).body(()).unwrap().into_parts().0;
    let reply = MetricsPages { registry, configz }.answer(&request);
    let (head, body) = reply.into_parts();
    let headers = format!("{:?}", head.headers);
    let body = body.collect().await.unwrap().to_bytes();
    (
        head.status,
        headers,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

#[tokio::test]
async fn pages_have_exact_paths() {
    for (path, expected) in [
        ("/healthz", "ok"),
        ("/healthz/ping", "ok"),
        ("/proxyMode", "iptables"),
        ("/configz", "{}"),
        ("/proxyMode/", "404 page not found\n"),
        ("/livez", "404 page not found\n"),
        ("/", "404 page not found\n"),
    ] {
        let (status, headers, body) = get(Some("{}".into()), path).await;
        assert_eq!(body, expected, "{path}");
        assert_eq!(
            status == StatusCode::OK,
            !expected.contains("404"),
            "{path}"
        );
        assert!(headers.contains("nosniff"), "{headers}");
    }
    assert_eq!(get(None, "/configz").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn metrics_are_announced_as_such() {
    let (status, headers, body) = get(None, "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    assert!(headers.contains("version=0.0.4"), "{headers}");
    assert!(headers.contains("process-start-time-unix"), "{headers}");
    assert!(body.contains("\nprocess_cpu_seconds_total "), "{body}");
}
