//! Tests of the text of the report.

use std::time::Duration;

use jiff::Timestamp;

use super::ShadowReport;
use crate::status::{
    ShadowDifference, ShadowDocument, ShadowFamily, ShadowKind, ShadowPayloads, ShadowReadings,
};

fn document(node: &str, lags: &[u64], differences: Vec<ShadowDifference>) -> ShadowDocument {
    let mut family = ShadowFamily {
        family: "IPv4".to_owned(),
        difference_count: differences.len() as u64,
        differences_affecting_packets: differences.len() as u64,
        differences,
        own_payloads: ShadowPayloads {
            count: 1,
            bytes: 1_500,
        },
        kube_proxy_bytes_at_least: Some(2_000_000),
        readings: ShadowReadings {
            count: 3,
            failed: 1,
            ..ShadowReadings::default()
        },
        ..ShadowFamily::default()
    };
    for millis in lags {
        family.kube_proxy_lag.add(Duration::from_millis(*millis));
        family.own_lag.add(Duration::from_millis(*millis / 100));
    }
    ShadowDocument {
        node: node.to_owned(),
        version: "1".to_owned(),
        started_at: Timestamp::UNIX_EPOCH,
        observed_at: Timestamp::UNIX_EPOCH,
        families: vec![family],
    }
}

#[test]
fn a_report_adds_up_all_nodes_and_lists_differences() {
    let edited = ShadowDifference {
        service: "shop/web".to_owned(),
        kind: ShadowKind::ChangedChain,
        table: "nat".to_owned(),
        chain: "KUBE-SVC-A".to_owned(),
        seconds: 75,
        is_waiting: true,
    };
    let documents = [
        document("node1", &[1_000, 2_000], vec![]),
        document("node2", &[4_000], vec![edited]),
    ];
    let report = ShadowReport::of(&documents);
    assert_eq!(
        report.text(),
        "2 nodes, 3 changes, 1 difference that affect packets\n\
         kube-proxy:  p50 2.05 s, p99 4.00 s, maximum 4.00 s\n\
         deltaproxy:  p50 0.02 s, p99 0.04 s, maximum 0.04 s, without the restore\n\
         payloads:    3.0 kB would have been written instead of at least 4.0 MB\n  \
         node2 IPv4 shop/web: changed_chain nat KUBE-SVC-A for 75 s, waits for kube-proxy\n"
    );
}

#[test]
fn a_report_without_changes_has_no_lag() {
    let documents = [document("node1", &[], vec![])];
    let text = ShadowReport::of(&documents).text();
    assert!(text.starts_with("1 node, 0 changes, 0 differences that affect packets\n"));
    assert!(text.contains("kube-proxy:  no changes yet\n"), "{text}");
}

/// Without a reading nothing is known of the rules, and families without a lower bound are not
/// compared in bytes.
#[test]
fn a_report_says_what_is_not_compared() {
    let mut documents = [
        document("node1", &[], vec![]),
        document("node2", &[], vec![]),
    ];
    assert!(ShadowReport::of(&documents).verdict().unwrap());
    documents[1].families[0].readings.count = 1;
    documents[1].families[0].kube_proxy_bytes_at_least = None;
    documents[1].families[0].unmeasured_changes = 2;
    documents[1].families[0].other_backend = "legacy".to_owned();
    let report = ShadowReport::of(&documents);
    assert!(report.verdict().is_err());
    let text = report.text();
    for part in [
        "3.0 kB would have been written; on nft 1.5 kB instead of at least 2.0 MB\n",
        "not compared: 1 family of a node, such as IPv4 of node2: ",
        "             2 more changes not measured\n",
        "not compared: rules of a proxy in the other backend, in 1 case, such as legacy for IPv4 \
         of node2; if kube-proxy writes these, set --iptables-backend=legacy\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
}
