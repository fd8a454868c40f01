//! Reports of Services that make restores fail.

use super::event_report::{events, finish};
use super::report::{ReportedMetrics, attempt, exited, outcome};
use super::*;
use crate::clock::instant;
use crate::events::Event;
use crate::host::ProgramExit;
use crate::model::ServiceName;
use crate::render::RuleCounts;

/// A sync that put two Services into quarantine and applied the rest.
fn isolated() -> Outcome {
    let attempts = [Scope::Partial, Scope::Full(FullReason::Failed)].map(|scope| {
        let killed = exited(ProgramExit::Signaled(9), "");
        attempt(scope, RuleCounts::default(), Err(killed))
    });
    let names = ["a", "b"].map(|name| ServiceName::new("shop", name));
    let blamed = |name: &ServiceName, fallback| Quarantined {
        name: name.clone(),
        cause: QuarantineCause::Killed,
        error: "killed by signal 9".to_owned(),
        fallback,
    };
    Outcome {
        search: Some(SearchResult {
            restores: 7,
            failed: 3,
            quarantined: vec![
                blamed(&names[0], Fallback::LastApplied),
                blamed(&names[1], Fallback::NoEndpoints),
            ],
            ..SearchResult::default()
        }),
        overridden: names.to_vec(),
        ..outcome(attempts.into())
    }
}

#[test]
fn a_sync_with_quarantined_services_is_healthy_and_names_them() {
    let reported = ReportedMetrics::new();
    let of_family = &reported.reporters[0];
    of_family.queued(instant());
    of_family.began();
    finish(of_family, &isolated(), 0);

    let quarantined = reported.series_of("deltaproxy_", "quarantine");
    let expected = [
        "quarantined_services{ip_family=\"IPv4\"} 2",
        "quarantines_total{cause=\"killed\",ip_family=\"IPv4\"} 2",
    ];
    assert_eq!(quarantined, expected);
    let restores = reported.series_of("deltaproxy_isolation_restores_total", "");
    let expected = [
        "{ip_family=\"IPv4\",result=\"applied\"} 4",
        "{ip_family=\"IPv4\",result=\"failed\"} 3",
    ];
    assert_eq!(restores, expected);
    // Those of the search are not among them.
    let failures = reported.series("iptables_restore_failures_total");
    let expected = "proxy_rules_iptables_restore_failures_total{ip_family=\"IPv4\"} 2";
    assert_eq!(failures, [expected]);

    let later = instant() + std::time::Duration::from_secs(1000);
    let families = of_family.health.report(later).families;
    assert!(families.v4.unwrap().healthy);
    assert_eq!(of_family.status().quarantined.len(), 2);

    // Nothing is left of it once they are released.
    let released = outcome(vec![attempt(Scope::Partial, RuleCounts::default(), Ok(()))]);
    finish(of_family, &released, 0);
    assert_eq!(of_family.status().quarantined.len(), 0);
}

#[test]
fn each_quarantined_service_makes_an_event() {
    let made = events(|reporter| finish(reporter, &isolated(), 0));
    let [Event::ServiceQuarantined(name, note), _] = made.as_slice() else {
        panic!("{made:?}");
    };
    assert_eq!(name.as_str(), "shop/a");
    let words = "node node1: IPv4 rules of the Service make iptables-restore fail; its last applied \
                 rules stay, its changes are skipped: killed by signal 9";
    assert_eq!(note, words);
}
