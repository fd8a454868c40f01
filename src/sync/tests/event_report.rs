//! Events about syncs that fail, flushed rules and Services over a limit.

use std::time::Duration;

use super::report::{ReportedMetrics, attempt, exited, outcome};
use super::*;
use crate::clock::instant;
use crate::events::{Event, Origin, recorder};
use crate::host::ProgramExit;
use crate::model::{Frontend, ServiceName};
use crate::net::Port;
use crate::render::RuleCounts;
use crate::sync::outcome::Outcome;
use crate::sync::problems::{ServiceProblem, ServiceProblems};
use crate::tracker::Tracker;

/// Events that the reporter of IPv4 makes of some reports.
pub(super) fn events(report: impl FnOnce(&Reporter)) -> Vec<Event> {
    let mut reported = ReportedMetrics::new();
    let (recorder, mut events) = recorder(Origin::sample());
    let [of_family, _] = &mut reported.reporters;
    of_family.recorder = recorder;
    report(of_family);
    events.queued_events()
}

/// Reports the end of a sync, after so many that failed in a row.
pub(super) fn finish(reporter: &Reporter, outcome: &Outcome, failed_syncs: u32) {
    let tracker = Tracker::new(std::time::UNIX_EPOCH);
    let retry = (failed_syncs, Duration::from_secs(1));
    reporter.finished(outcome, &tracker, instant(), retry);
}

#[test]
fn syncs_that_fail_in_a_row_make_events_and_one_alone_does_not() {
    let failed = exited(ProgramExit::Exited(1), "line 2 failed");
    let cause = failed.on_one_line();
    let scope = Scope::Full(FullReason::Failed);
    let failed = outcome(vec![attempt(scope, RuleCounts::default(), Err(failed))]);
    let applied = outcome(vec![attempt(scope, RuleCounts::default(), Ok(()))]);
    let made = events(|reporter| {
        finish(reporter, &applied, 0);
        finish(reporter, &failed, 1);
        finish(reporter, &failed, 2);
    });
    let note = format!(
        "node node1: 2 syncs of the IPv4 rules in a row failed; the last good rules stay, so \
         changes of Services since then are not in the kernel: {cause}"
    );
    assert!(note.contains("line 2 failed"), "{note}");
    assert_eq!(made, [Event::SyncFailed(note)]);
}

#[test]
fn a_full_sync_after_a_flush_makes_an_event() {
    let sync = |reason| {
        let attempts = vec![attempt(Scope::Full(reason), RuleCounts::default(), Ok(()))];
        events(|reporter| finish(reporter, &outcome(attempts), 0))
    };
    let made = sync(FullReason::Flushed);
    let [Event::RulesFlushed(note)] = made.as_slice() else {
        panic!("{made:?}");
    };
    let begin = "node node1: another program flushed the IPv4 rules";
    assert!(note.starts_with(begin), "{note}");
    for reason in FullReason::ALL {
        let is_flush = reason == FullReason::Flushed;
        assert_eq!(sync(reason).len(), usize::from(is_flush), "{reason:?}");
    }
}

#[test]
fn a_service_over_a_limit_makes_an_event_and_one_without_its_frontend_does_not() {
    let service = ServiceName::new("shop", "web");
    let frontends = ServiceProblem::Frontends {
        first: Frontend::HealthCheck(Port::new(30_080).unwrap()),
        holder: ServiceName::new("shop", "other"),
        count: 1,
    };
    let endpoints = ServiceProblem::NamespaceEndpoints { limit: 7 };
    let found = [endpoints, frontends].map(|problem| (service.clone(), problem));
    let made = events(|reporter| reporter.problems(&found, &ServiceProblems::default()));
    let [Event::ServiceOverLimit(name, note)] = made.as_slice() else {
        panic!("{made:?}");
    };
    assert_eq!(*name, service);
    let begin = "node node1: IPv4: clients of Service `shop/web` are rejected";
    assert!(note.starts_with(begin), "{note}");
    assert!(note.contains("more than 7 endpoints"), "{note}");
}
