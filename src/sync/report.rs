//! Reports syncs and checks to logs, metrics, health and Events.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc::UnboundedSender;
use tracing::{debug, error};

use super::decide::{FullReason, Scope};
use super::drift::{Compared, ComparisonDepth};
use super::guarded_chain_check::CheckResult;
use super::outcome::{Attempt, Failure, NextStep, Outcome, SyncMode};
use super::pacer::SyncResult;
use super::problems::{FoundProblem, ServiceProblems};
use super::quarantine::QuarantineCause;
use super::repair_backoff::Edited;
use super::report_text;
use super::schedule::CheckTrigger;
use crate::events::{Event, Recorder};
use crate::health::{
    Answering, CheckChanges, FrontendConflicts, Health, NodeState, QuarantinedServices,
};
use crate::host::RestoreError;
use crate::model::Change;
use crate::net::IpFamily;
use crate::render::{NodePortAddresses, RuleCounts};
use crate::rules::Table;
use crate::telemetry::{LocalPolicy, SyncKind, SyncMetrics};
use crate::tracker::{Tracker, Waiting};

/// Reporter of one family.
#[derive(Clone)]
pub(crate) struct Reporter {
    /// Family, for metric labels and logs.
    pub family: IpFamily,
    /// Effect of syncs, for logs.
    pub mode: SyncMode,
    /// Metrics of syncs.
    pub metrics: SyncMetrics,
    /// Health of the process.
    pub health: Health,
    /// State of the node while no Node object exists.
    pub without_node: NodeState,
    /// Channel to the servers of health check node ports; `None`: they are disabled.
    pub checks: Option<UnboundedSender<CheckChanges>>,
    /// Recorder of Events.
    pub recorder: Recorder,
    /// Name of this node, for the text of Events.
    pub node_name: String,
}

impl Reporter {
    /// Reports that the family is served and that its first sync is due, even before all objects
    /// are listed.
    ///
    /// Upstream: pkg/proxy/iptables/proxier.go, `SyncLoop` (v1.36)
    pub(super) fn serving(&self) {
        let reasons = FullReason::ALL.map(FullReason::as_str);
        let causes = QuarantineCause::ALL.map(QuarantineCause::as_str);
        self.metrics.serving(self.family, &reasons, &causes);
        for table in Table::ALL {
            self.metrics.unreadable(self.family, table.as_str(), false);
        }
        let triggers = CheckTrigger::ALL.map(CheckTrigger::as_str);
        self.metrics.checking(self.family, &triggers);
        self.metrics.queued(self.family, wall_clock());
    }

    /// Reports a change that is applied to the tracker.
    pub(crate) fn change(&self, change: &Change) {
        match change {
            // Differs from upstream, where the last Node object counts forever: load balancers
            // should send nothing to a node that was deleted from the cluster.
            Change::Node(node) => {
                let state = match node {
                    None => self.without_node,
                    Some(node) if node.is_leaving => NodeState::Leaving,
                    Some(_) => NodeState::Eligible,
                };
                self.health.update(|health| health.node(state));
            }
            Change::Listed(kind) => {
                debug!(family = %self.family, kind = kind.as_str(), "listed");
            }
            _ => {}
        }
    }

    /// Reports the changes that wait for a sync.
    pub(crate) fn pending(&self, tracker: &Tracker) {
        self.waiting(tracker.waiting());
    }

    /// Reports that the family is disabled, so that no change waits for a sync.
    pub(crate) fn given_up(&self) {
        self.waiting(Waiting::default());
    }

    fn waiting(&self, Waiting { services, slices }: Waiting) {
        self.metrics.pending(self.family, services, slices);
    }

    /// Reports a request for a sync.
    pub(super) fn queued(&self, now: Instant) {
        self.metrics.queued(self.family, wall_clock());
        self.health.update(|health| health.queued(self.family, now));
    }

    /// Reports the start of a sync.
    pub(super) fn began(&self) {
        self.health.update(|health| health.began(self.family));
    }

    /// Reports the end of a sync.
    pub(super) fn finished(&self, outcome: &Outcome, tracker: &Tracker, ended: Instant) {
        let at = wall_clock();
        for (position, attempt) in outcome.attempts.iter().enumerate() {
            self.attempt(attempt, outcome, outcome.step_after(position));
        }
        self.quarantine(outcome);
        self.pending(tracker);
        let conflicts = tracker.frontend_conflicts();
        self.metrics.frontend_conflicts(self.family, conflicts);
        let conflicts = FrontendConflicts::new(conflicts, tracker.lost_frontends());
        self.health
            .update(|health| health.conflicts(self.family, conflicts));
        match outcome.result() {
            SyncResult::Failed => self
                .health
                .update(|health| health.failed(self.family, ended)),
            SyncResult::Applied => {
                self.metrics.succeeded(self.family, at);
                self.health
                    .update(|health| health.succeeded(self.family, at));
            }
        }
        for trigger in &outcome.applied.triggers {
            let latency = at.duration_since(*trigger).unwrap_or_default();
            self.metrics.programmed(self.family, latency);
        }
    }

    /// Reports Services that lack rules since this sync, and the number of those over each limit.
    pub(super) fn problems(&self, found: &[FoundProblem], all: &ServiceProblems) {
        for problem in found {
            report_text::problem(self.family, problem);
        }
        for (limit, services) in all.over_limits() {
            self.metrics
                .over_limit(self.family, limit.as_str(), services);
        }
    }

    /// Reports the Services that make restores fail.
    fn quarantine(&self, outcome: &Outcome) {
        if let Some(isolation) = &outcome.isolation {
            self.metrics
                .isolated(self.family, isolation.restores, isolation.failed);
            for quarantined in &isolation.quarantined {
                self.metrics
                    .quarantined(self.family, quarantined.cause.as_str());
                let note = report_text::quarantine_note(self.family, &self.node_name, quarantined);
                self.recorder
                    .say(Event::ServiceQuarantined(quarantined.name.clone(), note));
            }
            report_text::isolation(self.family, isolation);
        }
        if let Some(retry) = &outcome.retry {
            self.metrics
                .isolated(self.family, retry.restores, retry.failed);
            report_text::retry(self.family, retry);
        }
        // Counts after a failure would be wrong: the kernel still has the earlier rules.
        let is_isolated = outcome.isolation.is_some() || outcome.retry.is_some();
        if is_isolated && outcome.result() == SyncResult::Applied {
            self.rule_counts(outcome, outcome.rules);
        }
        let names = &outcome.quarantined;
        self.metrics.in_quarantine(self.family, names.len());
        let names = QuarantinedServices::new(names);
        self.health
            .update(|health| health.quarantined(self.family, names));
    }

    /// Sends the changes of health check node ports after a sync, with the addresses of NodePorts.
    /// An empty change is sent as well: the servers retry ports that could not be opened.
    pub(super) fn health_check_ports(
        &self,
        outcome: &Outcome,
        tracker: &Tracker,
        addresses: &NodePortAddresses,
    ) {
        let Some(checks) = &self.checks else { return };
        if outcome.result() == SyncResult::Failed {
            return;
        }
        let answering = match addresses {
            NodePortAddresses::All => Answering::Everywhere,
            NodePortAddresses::Only(ips) => Answering::On(ips.clone()),
        };
        let changes = CheckChanges::new(answering, &outcome.applied.before, tracker);
        // Without a receiver the process is shutting down.
        let _ = checks.send(changes);
    }

    fn attempt(&self, attempt: &Attempt, outcome: &Outcome, next: NextStep) {
        let kind = match attempt.scope {
            Scope::Full(_) => SyncKind::Full,
            Scope::Partial | Scope::Adoption => SyncKind::Partial,
        };
        self.metrics.synced(self.family, kind, attempt.took);
        if let Scope::Full(reason) = attempt.scope {
            self.metrics.full_sync(self.family, reason.as_str());
        }
        self.metrics.lock_waited(self.family, lock_wait(attempt));
        report_text::notices(self.family, attempt);
        match &attempt.result {
            Ok(()) => {
                // Without a payload no program was started.
                if attempt.stats.bytes > 0 {
                    self.metrics.restored(kind, attempt.stats.bytes);
                }
                self.rule_counts(outcome, attempt.stats.rules);
                report_text::success(self.family, attempt, outcome.dirty, self.mode);
            }
            Err(failure) => {
                if let Failure::Restore(..) = failure {
                    self.metrics.restore_failed(self.family, kind);
                }
                report_text::failure(self.family, attempt, failure, next);
            }
        }
    }

    fn rule_counts(&self, outcome: &Outcome, last: RuleCounts) {
        let total = outcome.rules;
        for (table, total, last) in [
            ("filter", total.filter, last.filter),
            ("nat", total.nat, last.nat),
        ] {
            let count = |rules| usize::try_from(rules).unwrap_or(usize::MAX);
            self.metrics
                .rules(self.family, table, count(total), count(last));
        }
        for (policy, ports) in [
            (LocalPolicy::Internal, outcome.totals.internal_dropped),
            (LocalPolicy::External, outcome.totals.external_dropped),
        ] {
            self.metrics.no_local_endpoints(self.family, policy, ports);
        }
    }

    /// Returns the addresses of the node; logs an error if they cannot be read.
    pub(super) fn addresses(&self, found: io::Result<BTreeSet<IpAddr>>) -> Vec<IpAddr> {
        found.map_or_else(
            |cause| {
                error!(
                    family = %self.family,
                    "reading the addresses of this node failed: {cause}; NodePorts that are limited \
                     by --nodeport-addresses are unreachable, retrying with the next sync"
                );
                Vec::new()
            },
            Vec::from_iter,
        )
    }

    /// Reports the differences between the rules in the kernel and the applied ones.
    pub(super) fn compared(&self, compared: &Compared<'_>) {
        let (family, drift) = (self.family, compared.drift);
        let trigger = compared.trigger.as_str();
        self.metrics.checked(family, trigger, drift.is_none());
        if compared.depth == ComparisonDepth::Whole {
            match compared.failure {
                None => self.metrics.verified(family, wall_clock()),
                Some(_) => self.metrics.check_failed(family),
            }
        }
        for ((table, kind), chains) in &drift.counts {
            self.metrics
                .drifted(family, table.as_str(), kind.as_str(), *chains);
        }
        self.metrics.contested(family, compared.delayed);
        if !drift.is_none() && !compared.wait.is_zero() {
            let note = report_text::contest_note(family, &self.node_name, drift);
            self.recorder.say(Event::RulesContested(note));
        }
        report_text::compared(family, compared);
    }

    /// Reports the repair of rules that another program changed.
    pub(super) fn repaired(&self, after: Duration) {
        self.metrics.repaired(self.family, after);
        report_text::repaired(self.family, after);
    }

    /// Reports the findings of a check of fixed chains and jumps, and the unreadable tables.
    pub(super) fn checked(&self, result: &CheckResult, unreadable: &BTreeSet<Table>) {
        let names = Table::ALL.map(|table| unreadable.contains(&table).then(|| table.as_str()));
        self.health
            .update(|health| health.unreadable(self.family, names));
        for table in Table::ALL {
            let is_unreadable = unreadable.contains(&table);
            self.metrics
                .unreadable(self.family, table.as_str(), is_unreadable);
        }
        for Edited {
            chain: (table, _), ..
        } in &result.edited
        {
            self.metrics.chain_repaired(self.family, table.as_str());
        }
        report_text::checked(self.family, result);
    }
}

/// Returns the wait for the xtables lock, acquired or not.
fn lock_wait(attempt: &Attempt) -> Duration {
    match attempt.result {
        Err(Failure::Restore(RestoreError::Locked { waited, .. }, _)) => waited,
        _ => attempt.lock_wait,
    }
}

#[expect(clippy::disallowed_methods, reason = "the shell reads the clock")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}
