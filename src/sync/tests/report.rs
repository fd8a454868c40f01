//! Metrics of syncs, by name.

use std::collections::BTreeSet;
use std::time::Duration;

use prometheus::TextEncoder;
use prometheus::proto::MetricFamily;

use super::*;
use crate::clock::instant;
use crate::events::Recorder;
use crate::health::{Health, NodeState};
use crate::host::{ProgramExit, RestoreError};
use crate::model::{Change, ServiceName, ServiceState};
use crate::render::{PayloadStats, RuleCounts, ServiceTotals};
use crate::status::FamilyLog;
use crate::sync::outcome::{Attempt, Failure, NodeFault, Outcome, SearchResult, SyncMode};
use crate::telemetry::Metrics;
use crate::tracker::{AppliedChanges, Tracker};

/// Reporters of both families, and their metrics.
pub(crate) struct ReportedMetrics {
    pub(crate) metrics: Metrics,
    pub(crate) reporters: [Reporter; 2],
}

impl ReportedMetrics {
    pub(crate) fn new() -> Self {
        let metrics = Metrics::new().unwrap();
        let reporters = [IpFamily::V4, IpFamily::V6].map(|family| Reporter {
            family,
            mode: SyncMode::Restore,
            metrics: metrics.sync.clone(),
            health: Health::new(Duration::from_secs(30)),
            without_node: NodeState::Unknown,
            health_check_servers: None,
            recorder: Recorder::disabled(),
            node_name: "node1".to_owned(),
            log: FamilyLog::new(family),
            history: None,
        });
        Self { metrics, reporters }
    }

    /// The series whose names begin with `kubeproxy_sync_` and hold `part`, with their values.
    pub(super) fn series(&self, part: &str) -> Vec<String> {
        self.series_of("kubeproxy_sync_", part)
    }

    /// Reports the end of a sync of the IPv4 rules.
    pub(super) fn finish(&self, outcome: &Outcome) {
        let tracker = Tracker::new(std::time::UNIX_EPOCH);
        self.reporters[0].finished(outcome, &tracker, instant(), (0, Duration::ZERO));
    }

    pub(super) fn series_of(&self, prefix: &str, part: &str) -> Vec<String> {
        let families = self.metrics.registry.gather();
        let text = TextEncoder::new().encode_to_string(&families).unwrap();
        let lines = text.lines();
        let found = lines.filter_map(|line| line.strip_prefix(prefix));
        let found = found.filter(|line| line.contains(part));
        found.map(str::to_owned).collect()
    }
}

/// The failure of a restore of which the kernel has nothing.
fn failure_of(error: RestoreError) -> Failure {
    Failure::Restore {
        error,
        excerpt: None,
        named: None,
        is_untouched: true,
    }
}

/// The failure of a restore whose program ended in this way.
pub(super) fn exited(exit: ProgramExit, stderr: &str) -> Failure {
    let stderr = stderr.to_owned();
    failure_of(RestoreError::Failed { exit, stderr })
}

pub(super) fn attempt(scope: Scope, rules: RuleCounts, result: Result<(), Failure>) -> Attempt {
    Attempt {
        scope,
        took: Duration::from_millis(3),
        stats: PayloadStats {
            rules,
            chains: 1,
            bytes: 100,
        },
        payload: Vec::new(),
        declined: None,
        lock_wait: Duration::ZERO,
        result,
    }
}

/// The last attempt wrote 3 and 7 rules of the 40 and 50 that there are.
pub(super) fn outcome(attempts: Vec<Attempt>) -> Outcome {
    Outcome {
        attempts,
        notices: Notices::default(),
        search: None,
        quarantine_retry: None,
        overridden: Vec::new(),
        applied: AppliedChanges::default(),
        dirty: 1,
        rules: RuleCounts {
            filter: 40,
            nat: 50,
        },
        tree_chains: 5,
        totals: ServiceTotals {
            endpoints: 9,
            internal_dropped: 1,
            external_dropped: 2,
            undetected: 0,
        },
    }
}

#[test]
fn health_check_ports_follow_what_a_search_that_failed_has_applied() {
    let mut metrics = ReportedMetrics::new();
    let (sender, mut changes) = tokio::sync::mpsc::unbounded_channel();
    let [reporter, _] = &mut metrics.reporters;
    reporter.health_check_servers = Some(sender);
    let tracker = Tracker::new(std::time::SystemTime::UNIX_EPOCH);
    let mut failed = outcome(Vec::new());
    failed.search = Some(SearchResult {
        node_fault: Some(NodeFault::default()),
        ..SearchResult::default()
    });
    assert_eq!(failed.result(), SyncResult::Failed);
    let addresses = NodePortAddresses::All;
    reporter.health_check_ports(&failed, &tracker, &addresses);
    assert!(changes.try_recv().is_err(), "nothing was applied");
    let applied = (ServiceName::new("shop", "cart"), ServiceState::default());
    failed.applied.before.push(applied);
    reporter.health_check_ports(&failed, &tracker, &addresses);
    assert!(changes.try_recv().is_ok());
}

fn restore_failed() -> Result<(), Failure> {
    let waited = Duration::from_secs(5);
    Err(failure_of(RestoreError::Locked {
        waited,
        committed: 0,
    }))
}

const WRITTEN: RuleCounts = RuleCounts { filter: 3, nat: 7 };

fn unreadable() -> Failure {
    Failure::Read(missing_program())
}

#[test]
fn the_log_of_a_failed_attempt_names_the_step_that_follows() {
    let rejected = || exited(ProgramExit::Exited(1), "");
    let failed = |(scope, failure)| attempt(scope, RuleCounts::default(), Err(failure));
    let consequences = |attempts: Vec<(Scope, Failure)>, search: Option<SearchResult>| {
        let mut outcome = outcome(attempts.into_iter().map(failed).collect());
        outcome.search = search;
        let failures = outcome.attempts.iter().enumerate();
        let failures = failures.map(|(position, attempt)| {
            let failure = attempt.result.as_ref().unwrap_err();
            crate::sync::report::failure_consequence(failure, outcome.step_after(position))
        });
        failures.collect::<Vec<_>>()
    };
    let full = Scope::Full(FullReason::Failed);
    let search = "changes were delayed; followed by a search for the Services that make it fail, so \
                  that all others are applied";
    let attempts = vec![(Scope::Partial, rejected()), (full, rejected())];
    let found = consequences(attempts, Some(SearchResult::default()));
    let at_once = "changes were delayed; followed by a full restore at once";
    assert_eq!(found, [at_once, search]);
    let periodic = Scope::Full(FullReason::Periodic);
    let partial = "changes were delayed; followed by a restore of the changed rules alone at once";
    let of_node = "changes are delayed, so removed endpoints still get traffic; retrying. The cause \
                   is likely on this node: check the iptables binaries, their privileges, kernel \
                   modules and memory";
    for failure in [rejected(), unreadable()] {
        let attempts = vec![(periodic, failure), (Scope::Partial, rejected())];
        assert_eq!(consequences(attempts, None), [partial, of_node]);
    }
    let stays = "the rules in the kernel stay, so removed endpoints still get traffic; retrying";
    assert_eq!(consequences(vec![(full, unreadable())], None), [stays]);
    let locked = restore_failed().unwrap_err();
    let held = "changes are delayed while another program holds the xtables lock, so removed \
                endpoints still get traffic; retrying. If it keeps the lock, find it: \
                `fuser -v /run/xtables.lock`";
    assert_eq!(consequences(vec![(Scope::Partial, locked)], None), [held]);
}

#[test]
fn a_node_that_is_not_in_the_list_is_missing() {
    let mut metrics = ReportedMetrics::new();
    let [reporter, _] = &mut metrics.reporters;
    assert!(!reporter.status().is_node_missing, "not listed yet");
    reporter.change(&Change::Node(None));
    assert!(reporter.status().is_node_missing);
    reporter.change(&Change::Node(Some(Box::default())));
    assert!(!reporter.status().is_node_missing);
    // Manifests need none.
    reporter.without_node = NodeState::Eligible;
    reporter.change(&Change::Node(None));
    assert!(!reporter.status().is_node_missing);
}

/// The machine turns out to do without one.
#[test]
fn a_disabled_family_has_nothing_pending() {
    let metrics = ReportedMetrics::new();
    let mut tracker = Tracker::new(std::time::UNIX_EPOCH);
    tracker.apply(super::syncer::service(1, true));
    let reporter = &metrics.reporters[1];
    let pending = || metrics.series("service_changes_pending").concat();
    reporter.pending(&tracker);
    assert!(pending().ends_with(" 1"), "{}", pending());
    reporter.family_disabled();
    assert!(pending().ends_with(" 0"), "{}", pending());
}

#[test]
fn a_served_family_has_a_first_sync_queued() {
    let reported = ReportedMetrics::new();
    assert_eq!(reported.series("timestamp"), [""; 0]);
    reported.reporters[1].serving();
    let stamps = reported.series("timestamp");
    let queued = "proxy_rules_last_queued_timestamp_seconds{ip_family=\"IPv6\"} ";
    assert_eq!(stamps.len(), 1, "{stamps:?}");
    assert!(stamps[0].starts_with(queued), "{stamps:?}");
    // A load balancer need not go elsewhere for that.
    let health = reported.reporters[1].health.report(instant());
    assert_eq!(health.families.v6, None);
}

/// Prometheus does not see the appearance of a series at 1 as an increase.
#[test]
fn counters_of_alerts_and_dashboards_exist_before_they_count() {
    let reported = ReportedMetrics::new();
    for reporter in &reported.reporters {
        reporter.serving();
    }
    let families = reported.metrics.registry.gather();
    let queried = [
        include_str!("../../../deploy/monitoring/rules.yaml"),
        include_str!("../../../deploy/monitoring/node.json"),
    ];
    let words = queried.join("\n");
    let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_counter = |word: &&str| {
        let is_ours = word.starts_with("deltaproxy_") || word.starts_with("kubeproxy_");
        // Gauges of kube-proxy, and counters of packets that some kernels lack.
        let is_other = [
            "_iptables_total",
            "_no_local_endpoints_total",
            "_packets_total",
        ];
        is_ours && word.ends_with("_total") && !is_other.iter().any(|end| word.ends_with(end))
    };
    let counters: BTreeSet<&str> = words.filter(is_counter).collect();
    assert!(counters.len() > 15, "{counters:?}");
    for name in counters {
        let family = families.iter().find(|family| family.name() == name);
        let series = family.map(MetricFamily::get_metric).unwrap_or_default();
        assert!(!series.is_empty(), "{name} does not exist");
        let mut values = series.iter().map(|series| series.get_counter().get_value());
        assert!(values.all(|value| value == 0.0), "{name}: {series:?}");
    }
}

#[test]
fn a_lock_wait_that_timed_out_is_counted_like_one_that_succeeded() {
    let reported = ReportedMetrics::new();
    let had = Attempt {
        lock_wait: Duration::from_millis(1500),
        ..attempt(Scope::Partial, WRITTEN, Ok(()))
    };
    let timed_out = attempt(Scope::Partial, WRITTEN, restore_failed());
    reported.finish(&outcome(vec![timed_out, had]));
    let waited = reported.series_of("deltaproxy_", "lock_wait");
    let expected = "restore_lock_wait_seconds_total{ip_family=\"IPv4\"} 6.5";
    assert_eq!(waited, [expected]);
}

#[test]
fn payload_bytes_are_counted_when_a_program_was_started() {
    let reported = ReportedMetrics::new();
    let mut nothing = attempt(Scope::Partial, RuleCounts::default(), Ok(()));
    nothing.stats = PayloadStats::default();
    let something = attempt(Scope::Partial, WRITTEN, Ok(()));
    for attempt in [nothing, something] {
        reported.finish(&outcome(vec![attempt]));
    }
    let counts = reported.series_of("deltaproxy_restore_payload_bytes_", "count");
    assert_eq!(counts, ["count{scope=\"partial\"} 1"]);
    let lines = reported.series("proxy_rules_duration_seconds_count");
    assert_eq!(lines.last().unwrap().rsplit(' ').next(), Some("2"));
}

/// kube-proxy counts whatever ends a partial sync.
#[test]
fn a_failed_read_is_not_counted_as_a_failed_restore() {
    let reported = ReportedMetrics::new();
    let failed = attempt(Scope::Adoption, RuleCounts::default(), Err(unreadable()));
    reported.finish(&outcome(vec![failed]));
    assert_eq!(reported.series("_failures_total"), [""; 0]);
}
