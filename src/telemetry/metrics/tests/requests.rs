//! Tests of `requests`.

use prometheus::TextEncoder;

use super::*;

#[test]
fn requests_without_a_response_count_and_watches_have_no_duration() {
    let registry = Registry::new();
    let metrics = RequestMetrics::register(&registry).unwrap();
    let list = "https://10.0.0.1:6443/api/v1/services?limit=500";
    let watch = "https://10.0.0.1:6443/api/v1/services?watch=true&resourceVersion=1";
    for (uri, status) in [(list, Some(200)), (watch, Some(410)), (list, None)] {
        let request = Request::get(uri).body(()).unwrap();
        let sent = metrics.sent(&request);
        if let Some(status) = status {
            sent.answered(StatusCode::from_u16(status).unwrap());
        }
    }
    let text = TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap();
    let samples: Vec<_> = text
        .lines()
        .filter(|line| line.contains("_total{") || line.contains("_count{"))
        .collect();
    assert_eq!(
        samples,
        [
            r#"rest_client_request_duration_seconds_count{host="10.0.0.1:6443",verb="GET"} 2"#,
            r#"rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 1"#,
            r#"rest_client_requests_total{code="410",host="10.0.0.1:6443",method="GET"} 1"#,
            r#"rest_client_requests_total{code="<error>",host="10.0.0.1:6443",method="GET"} 1"#,
        ]
    );
}
