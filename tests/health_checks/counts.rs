//! The gauges that count rules and Services, beside those of a real kube-proxy.

use serde_json::json;

use super::scene::Scene;
use crate::support::daemon::Daemon;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{http, needs, objects};

/// What is counted when nothing happens: which rules a payload names is each program's own affair.
const GAUGES: [&str; 2] = [
    "kubeproxy_sync_proxy_rules_iptables_total{",
    "kubeproxy_sync_proxy_rules_no_local_endpoints_total{",
];

/// Waits until both programs have counted the same, and this among it.
#[track_caller]
fn count(scene: &Scene, wanted: &[&str]) {
    eventually(PATIENCE, || {
        let mut pages = Vec::new();
        for node in &scene.nodes {
            let (_, page) = http::get(&node.netns, Daemon::METRICS, "/metrics")?;
            let lines = page.lines();
            let is_gauge = |line: &&str| GAUGES.iter().any(|gauge| line.starts_with(gauge));
            pages.push(lines.filter(is_gauge).collect::<Vec<_>>().join("\n"));
        }
        let has_all = |page: &String| wanted.iter().all(|line| page.contains(line));
        ensure(pages.iter().all(has_all) && pages[0] == pages[1], || {
            format!("{wanted:?} in\n{}", pages.join("\n\n"))
        })
    });
}

/// Upstream: `pkg/proxy/iptables/proxier_test.go`, `TestNoEndpointsMetric`,
/// `TestProxierMetricsIPTablesTotalRules` (v1.37)
#[test]
fn gauges_count_what_kube_proxy_counts() {
    needs!(Upstream);
    let scene = Scene::both(&[]);
    let api = scene.api();
    let total = |table: &str, rules: usize| {
        format!("iptables_total{{ip_family=\"IPv4\",table=\"{table}\"}} {rules}")
    };
    let stranded = |policy: &str, ports: usize| {
        let labels = format!("ip_family=\"IPv4\",traffic_policy=\"{policy}\"");
        format!("no_local_endpoints_total{{{labels}}} {ports}")
    };
    let check = |filter, nat, internal, external| {
        let lines = [
            total("filter", filter),
            total("nat", nat),
            stranded("internal", internal),
            stranded("external", external),
        ];
        count(&scene, &lines.each_ref().map(String::as_str));
    };
    // What there always is, and the Service that the API server makes.
    let (filter, nat) = (4, 5 + 5);
    check(filter, nat, 0, 0);

    let spec = json!({"clusterIP": "10.96.1.1", "internalTrafficPolicy": "Local"});
    let inside = objects::service("inside", spec);
    let spec = json!({
        "clusterIP": "10.96.1.2",
        "externalIPs": ["203.0.113.10"],
        "externalTrafficPolicy": "Local",
    });
    let outside = objects::service("outside", spec);
    api.apply_all(&[inside.clone(), outside.clone()]);
    // All three addresses are refused.
    check(filter + 3, nat, 0, 0);

    let elsewhere = |service| {
        let mut slice = objects::slice(service, &["10.4.0.11", "10.4.0.12"]);
        for at in [0, 1] {
            slice["endpoints"][at]["nodeName"] = "node2".into();
        }
        slice
    };
    api.apply_all(&[elsewhere(&inside), elsewhere(&outside)]);
    // One cluster IP and the external one drop; clients on the node have all chains of policy
    // Cluster.
    let nat = nat + (2 + 3 + 4 + 3);
    check(filter + 2, nat, 1, 1);

    let here = |service| objects::slice(service, &["10.4.0.11", "10.4.0.12"]);
    api.apply(&here(&inside));
    let nat = nat + (1 + 3 + 4);
    check(filter + 1, nat, 0, 1);
    api.apply(&here(&outside));
    check(filter, nat + (1 + 2), 0, 0);
}
