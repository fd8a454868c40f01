//! Bodies against the recorded replies of kube-proxy v1.37.2, and the whole way over a socket.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Request;
use prometheus::TextEncoder;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Health, HealthBody, HealthPages, Probe};
use crate::health::{FamilyReport, HealthReport, NodeState, recorded};
use crate::net::{IpFamily, PerFamily};
use crate::telemetry::{Metrics, Reply, serve};

fn at(seconds: u64, nanos: u32) -> SystemTime {
    UNIX_EPOCH + Duration::new(seconds, nanos)
}

/// 2026-11-21T02:47:16Z.
const START: u64 = 1_795_229_236;

fn report(healthy: bool) -> HealthReport {
    let family = |nanos| FamilyReport {
        last_updated: Some(at(START, nanos)),
        healthy,
    };
    HealthReport {
        healthy,
        node_eligible: true,
        families: PerFamily {
            v4: Some(family(719_548_645)),
            v6: Some(family(889_785_054)),
        },
    }
}

fn body(probe: Probe, healthy: bool, report: &HealthReport, now: SystemTime) -> String {
    HealthBody::new(probe, healthy, report, now).to_json()
}

#[test]
fn bodies_are_upstream_s() {
    let now = at(START + 4, 266_369_291);
    assert_eq!(
        body(Probe::Healthz, true, &report(true), now),
        r#"{"lastUpdated":"2026-11-21T02:47:20.266369291Z","currentTime":"2026-11-21T02:47:20.266369291Z","nodeEligible":true,"healthy":true,"status":{"IPv4":{"lastUpdated":"2026-11-21T02:47:16.719548645Z","healthy":true},"IPv6":{"lastUpdated":"2026-11-21T02:47:16.889785054Z","healthy":true}}}"#
    );
    assert_eq!(
        body(Probe::Livez, false, &report(false), at(START + 99, 0)),
        r#"{"lastUpdated":"2026-11-21T02:47:16.889785054Z","currentTime":"2026-11-21T02:48:55Z","healthy":false,"status":{"IPv4":{"lastUpdated":"2026-11-21T02:47:16.719548645Z","healthy":false},"IPv6":{"lastUpdated":"2026-11-21T02:47:16.889785054Z","healthy":false}}}"#
    );
}

#[test]
fn what_never_was_is_left_out_or_year_one() {
    let mut report = report(true);
    report.families.v6 = None;
    report.families.v4 = Some(FamilyReport {
        last_updated: None,
        healthy: true,
    });
    report.node_eligible = false;
    let now = at(START, 500_000_000);
    assert_eq!(
        body(Probe::Healthz, false, &report, now),
        r#"{"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"2026-11-21T02:47:16.5Z","nodeEligible":false,"healthy":true,"status":{"IPv4":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":true}}}"#
    );
    report.families.v4 = None;
    assert_eq!(
        body(Probe::Livez, true, &report, now),
        r#"{"lastUpdated":"2026-11-21T02:47:16.5Z","currentTime":"2026-11-21T02:47:16.5Z","healthy":true}"#
    );
}

#[test]
fn threads_that_have_stalled_are_named_last() {
    let report = HealthReport {
        families: PerFamily::default(),
        ..report(true)
    };
    let body = HealthBody {
        stalled_threads: vec!["main"],
        ..HealthBody::new(Probe::Livez, true, &report, at(START, 0))
    };
    let text = body.to_json();
    let end = r#""healthy":true,"stalledThreads":["main"]}"#;
    assert!(text.ends_with(end), "{text}");
}

/// Answers while no thread has stalled.
fn answer(pages: &HealthPages, request: &Request<Bytes>) -> Reply {
    pages.answer_while(&[], request)
}

/// Compares the recorded replies of kube-proxy v1.37.2 with ours in the same state.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the server reads the same clock")]
async fn replies_are_the_recorded_ones() {
    let health = Health::new(Duration::from_secs(30));
    let pages = HealthPages {
        health: health.clone(),
        metrics: Metrics::new().unwrap().health,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = serve(
        listener,
        |request| std::future::ready(answer(&pages, &request)),
        stop.clone(),
    );
    let client = async {
        health.update(|state| {
            state.node(NodeState::Eligible);
            state.succeeded(IpFamily::V4, at(START, 719_548_645));
            state.succeeded(IpFamily::V6, at(START, 889_785_054));
        });
        let well = include_str!("../../../tests/golden/http/healthz.http");
        let alive = include_str!("../../../tests/golden/http/livez.http");
        for (request, expected) in [("GET /healthz", well), ("POST /livez?x", alive)] {
            let reply = recorded::ask(address, request).await.unwrap();
            assert_eq!(recorded::alike(&reply), recorded::alike(expected));
        }
        let reply = recorded::ask(address, "HEAD /healthz").await.unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        // Two times of now, each without zeros at its end: as good as never all ten places shorter.
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.unwrap().parse().unwrap();
        assert!((264..=283).contains(&length), "{head}");
        assert_eq!(body, "");

        let now = Instant::now();
        let long_ago = now.checked_sub(Duration::from_secs(61)).unwrap_or(now);
        health.update(|state| {
            state.queued(IpFamily::V4, long_ago);
            state.queued(IpFamily::V6, long_ago);
        });
        let ill = include_str!("../../../tests/golden/http/healthz-503.http");
        let reply = recorded::ask(address, "GET /healthz").await.unwrap();
        assert_eq!(recorded::alike(&reply), recorded::alike(ill));
        stop.cancel();
    };
    tokio::join!(server, client);
}

/// Series of the counted replies, with their numbers.
fn counted_replies(metrics: &Metrics) -> Vec<String> {
    let text = TextEncoder::new().encode_to_string(&metrics.registry.gather());
    let text = text.unwrap();
    let counts = text
        .lines()
        .filter_map(|line| line.strip_prefix("kubeproxy_proxy_"));
    counts.map(str::to_owned).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the pages read the same clock")]
fn the_node_counts_for_traffic_and_not_for_life() {
    let metrics = Metrics::new().unwrap();
    let health = Health::new(Duration::from_secs(30));
    let pages = HealthPages {
        health: health.clone(),
        metrics: metrics.health.clone(),
    };
    let status = |path| {
        let request = Request::post(path).body(Bytes::new()).unwrap();
        answer(&pages, &request).status().as_u16()
    };
    let of_all = || ["/healthz", "/livez", "/healthz/"].map(status);
    assert_eq!(of_all(), [503, 200, 404]);
    health.update(|state| state.node(NodeState::Eligible));
    assert_eq!(of_all(), [200, 200, 404]);
    let now = Instant::now();
    let long_ago = now.checked_sub(Duration::from_secs(61)).unwrap_or(now);
    health.update(|state| state.queued(IpFamily::V4, long_ago));
    assert_eq!(of_all(), [503, 503, 404]);
    assert_eq!(
        counted_replies(&metrics),
        [
            r#"healthz_total{code="200"} 1"#,
            r#"healthz_total{code="503"} 2"#,
            r#"livez_total{code="200"} 2"#,
            r#"livez_total{code="503"} 1"#,
        ]
    );
}
