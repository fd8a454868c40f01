//! Names, labels and buckets against the recorded page of kube-proxy v1.37.2.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use prometheus::TextEncoder;
use prometheus::proto::MetricFamily;

use super::super::{
    ConnectionMetrics, ConnectionReading, HistoryMetrics, Metrics, ShadowProxy, UnknownSettings,
};
use super::SyncKind;
use crate::net::IpFamily;

/// Series that kube-proxy v1.37.2 served for one family, without their values.
const SERVED: &str = include_str!("../../../../tests/golden/upstream/metrics.txt");

/// Metrics of which each was used once.
fn used() -> Metrics {
    let metrics = Metrics::new().unwrap();
    let sync = &metrics.sync;
    let (v4, second) = (IpFamily::V4, Duration::from_secs(1));
    use_shadow(&metrics);
    sync.synced(v4, SyncKind::Full, second);
    sync.synced(v4, SyncKind::Partial, Duration::from_millis(3));
    sync.restores.serving(v4, &["first", "flushed"]);
    sync.quarantine.serving(v4, &["refused"]);
    sync.restores.full_sync(v4, "first");
    sync.succeeded(v4, UNIX_EPOCH + Duration::from_millis(1500));
    sync.queued(v4, UNIX_EPOCH + second);
    sync.restores.restore_failed(v4, SyncKind::Full);
    sync.restores.restore_failed(v4, SyncKind::Partial);
    sync.restores.restored(SyncKind::Partial, 1000);
    sync.drift.unreadable(IpFamily::V4, "filter", true);
    sync.drift.chain_repaired(IpFamily::V4, "nat");
    sync.quarantine.quarantined(v4, "refused");
    sync.quarantine.in_quarantine(v4, 2);
    sync.quarantine.trial_restores(v4, 5, 2);
    sync.restores.frontend_conflicts(IpFamily::V4, 2);
    sync.restores.other_backend_has_rules(IpFamily::V4, true);
    sync.restores.over_limit(v4, "namespace_endpoints", 3);
    sync.drift
        .checking(v4, &["event", "period"], &["nat"], &["jump"]);
    sync.drift.checked(v4, "event", false);
    sync.drift.check_failed(v4);
    sync.drift.verified(v4, UNIX_EPOCH + second);
    sync.drift.drifted(v4, "nat", "jump", 1);
    sync.drift.repaired(v4, second);
    sync.drift.contested(v4, 1);
    sync.drift.third_party_removed(v4, "nat", 2);
    sync.restores.lock_waited(v4, Duration::from_millis(250));
    sync.rules(v4, "nat", 43, 15);
    sync.tree_chains(v4, 12);
    sync.programmed(v4, second);
    (0..6).for_each(|_| sync.endpoint_change());
    (0..5).for_each(|_| sync.service_change());
    sync.pending(v4, 7, 8);
    sync.pending(IpFamily::V6, 1, 20);
    sync.pending(v4, 3, 2);
    sync.no_local_endpoints(v4, "external", 3);
    sync.conntrack_cleaned(v4, second, 7);
    metrics.config.set_unknown(&UnknownSettings {
        feature_gates: vec!["Later".to_owned()],
        fields: Vec::new(),
    });
    metrics.health.healthz.with_label_values(&["200"]).inc();
    metrics.health.livez.with_label_values(&["503"]).inc();
    metrics.watch.errors.with_label_values(&["Service"]).inc();
    metrics.watch.undecodable.with_label_values(&["Node"]).inc();
    metrics.watch.ages.current("Service");
    let request = http::Request::post("https://10.0.0.1/api/v1/events");
    let sent = metrics.watch.requests.sent(&request.body(()).unwrap());
    sent.answered(http::StatusCode::CREATED);
    metrics.count_packets(|| Some(12), || Some(34)).unwrap();
    metrics
}

fn use_shadow(metrics: &Metrics) {
    let v4 = IpFamily::V4;
    let shadow = &metrics.shadow;
    shadow.lag(v4, ShadowProxy::KubeProxy, Duration::from_secs(1));
    shadow.differences(v4, "jump", 2);
    shadow.waiting(v4, 3);
    shadow.payload(v4, 7);
    shadow.kube_proxy(v4, 70);
}

fn text() -> String {
    TextEncoder::new()
        .encode_to_string(&used().registry.gather())
        .unwrap()
}

/// Returns the name of a series, the names of its labels, and the limit of a bucket.
fn series(line: &str) -> (String, Vec<String>) {
    let (name, labels) = line.split_once('{').unwrap_or((line, ""));
    let name = name.split(' ').next().unwrap_or_default();
    let labels = labels.split_once('}').map_or("", |(labels, _)| labels);
    let labels = labels.split(',').filter(|label| !label.is_empty());
    let mut labels: Vec<_> = labels
        .map(|label| match label.split_once('=') {
            Some((key, _)) if key != "le" => key.to_owned(),
            _ => label.to_owned(),
        })
        .collect();
    labels.sort();
    (name.to_owned(), labels)
}

#[test]
fn types_labels_and_buckets_match_upstream() {
    let text = text();
    let types: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("# TYPE "))
        .collect();
    let ours: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(series)
        .collect();
    let mut families = Vec::new();
    for line in SERVED.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            assert!(types.contains(&line), "{line}");
            families.push(family.split(' ').next().unwrap());
        } else {
            assert!(ours.contains(&series(line)), "{line}");
        }
    }
    assert!(families.len() > 30, "{families:?}");
    // These families have no other bucket and no other label.
    let served: Vec<_> = SERVED.lines().map(series).collect();
    for one in &ours {
        let is_upstream_s = families.iter().any(|family| one.0.starts_with(family));
        assert!(!is_upstream_s || served.contains(one), "{one:?}");
    }
}

/// Those that kube-proxy serves only after a restore that failed.
const OF_FAILURES: [&str; 2] = [
    "sync_proxy_rules_iptables_partial_restore_failures_total counter",
    "sync_proxy_rules_iptables_restore_failures_total counter",
];

fn types(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines();
    lines.filter_map(|line| line.strip_prefix("# TYPE kubeproxy_"))
}

#[test]
fn names_and_types_match_upstream() {
    let text = text();
    let upstream: BTreeSet<_> = types(SERVED).chain(OF_FAILURES).collect();
    assert!(types(&text).eq(upstream), "{text}");
    for line in text
        .lines()
        .filter(|line| line.contains("# HELP kubeproxy_"))
    {
        assert!(line.contains(" [ALPHA] "), "{line}");
    }
}

/// Returns the words of a text with the prefix of deltaproxy's or kube-proxy's metrics.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let has_prefix = |word: &&str| {
        let prefixes = ["deltaproxy_", "kubeproxy_"];
        let mut rest = prefixes.iter().filter_map(|all| word.strip_prefix(all));
        rest.next().is_some_and(|rest| !rest.is_empty())
    };
    words.filter(has_prefix).collect()
}

#[test]
fn pages_alerts_and_dashboards_name_served_metrics() {
    let registry = used().registry;
    // Those of --service-metrics and --state-dir.
    let mut reading = ConnectionReading::default();
    reading.add("shop/web:http", 1, 1);
    let connections = ConnectionMetrics::register(&registry).unwrap();
    connections.read(IpFamily::V4, &reading);
    HistoryMetrics::register(&registry).unwrap();
    let families = registry.gather();
    let served: Vec<_> = families.iter().map(MetricFamily::name).collect();
    let served = served.join(" ");
    let served = metric_names(&served);
    assert_eq!(
        metric_names(include_str!("../../../../deploy/docs/metrics.md")),
        served
    );
    let queried = |text| -> BTreeSet<_> {
        let names = metric_names(text).into_iter();
        let names = names.map(|name| {
            let suffixes = ["_bucket", "_count"];
            let mut of_histogram = suffixes.iter().filter_map(|end| name.strip_suffix(end));
            of_histogram.next().unwrap_or(name)
        });
        names.collect()
    };
    let alerts = queried(include_str!("../../../../deploy/monitoring/rules.yaml"));
    let fleet = queried(include_str!("../../../../deploy/monitoring/fleet.json"));
    for names in [alerts, fleet] {
        assert!(!names.is_empty() && names.is_subset(&served), "{names:?}");
    }
    // The dashboard of a node shows each metric of its proxy that is served without further flags;
    // a shadow is not the proxy.
    let node = include_str!("../../../../deploy/monitoring/node.json");
    let families = used().registry.gather();
    let without_flags = families.iter().map(MetricFamily::name);
    let of_proxy = without_flags.filter(|name| !name.starts_with("deltaproxy_shadow_"));
    let of_proxy: Vec<_> = of_proxy.collect();
    assert_eq!(queried(node), metric_names(&of_proxy.join(" ")));
}

#[test]
fn unreadable_packet_counts_have_no_sample() {
    let metrics = Metrics::new().unwrap();
    metrics.count_packets(|| None, || Some(0)).unwrap();
    let text = TextEncoder::new()
        .encode_to_string(&metrics.registry.gather())
        .unwrap();
    let counts: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("kubeproxy_iptables_"))
        .collect();
    assert_eq!(
        counts,
        ["kubeproxy_iptables_localhost_nodeports_accepted_packets_total 0"]
    );
}
