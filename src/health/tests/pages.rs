//! Bodies of kube-proxy v1.37.2, and what counts for which page.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Request;
use prometheus::TextEncoder;

use super::{Health, HealthBody, HealthPages, Probe};
use crate::health::{FamilyReport, HealthReport, NodeState};
use crate::net::{IpFamily, PerFamily};
use crate::telemetry::Metrics;

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
        pages.answer_while(&[], &request).status().as_u16()
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
