//! Events about rules that another program keeps changing.

use std::time::Duration;

use super::event_report::events;
use super::report::ReportedMetrics;
use super::*;
use crate::events::Event;
use crate::logged::warnings;
use crate::rules::Table;
use crate::sync::kernel::{Compared, Drift};

const NOW: Duration = Duration::ZERO;
const WAIT: Duration = Duration::from_secs(1);

/// Notes of the events that such a comparison makes.
fn notes(drift: &Drift, wait: Duration) -> Vec<String> {
    let compared = Compared {
        trigger: ComparisonTrigger::VerificationDue,
        is_verification: false,
        drift,
        failure: None,
        failed_readings: 0,
        repair_delay: wait,
        delayed_chains: 1,
    };
    let made = events(|reporter| reporter.compared(&compared));
    let notes = made.into_iter().map(|event| match event {
        Event::RulesContested(note) => note,
        other => panic!("{other:?}"),
    });
    notes.collect()
}

#[test]
fn a_contested_table_makes_an_event_that_names_the_table() {
    let mut drift = Drift::default();
    drift.add_unnamed(Table::Nat, DriftKind::FlushedTable, 3);
    let notes = notes(&drift, WAIT);
    assert!(notes[0].contains("60s: tables nat. Find"), "{notes:?}");
}

#[test]
fn a_failed_reading_is_a_warning_at_first_and_then_at_each_doubling() {
    let (log, _guard) = warnings();
    let reported = ReportedMetrics::new();
    let drift = Drift::default();
    let failure = missing_program();
    for failed_readings in 1..=20 {
        reported.reporters[0].compared(&Compared {
            trigger: ComparisonTrigger::VerificationDue,
            is_verification: true,
            drift: &drift,
            failure: Some(&failure),
            failed_readings,
            repair_delay: NOW,
            delayed_chains: 0,
        });
    }
    let text = log.text();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.contains("reading the rules in the kernel failed, retrying"));
}

#[test]
fn immediate_repairs_make_no_event() {
    let mut drift = Drift::default();
    assert!(notes(&drift, WAIT).is_empty());
    drift.add(Table::Nat, DriftKind::DispatchChain, "KUBE-SERVICES");
    assert!(notes(&drift, NOW).is_empty());
}
