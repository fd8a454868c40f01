//! Reports the state and the syncs of an IP family to logs, metrics, health and Events: also
//! Services that lack some or all of their rules, because they are over limits, lose frontends, or
//! are in quarantine.
//!
//! Reports about [rules that other programs changed](super::report_drift) and [records of the
//! history](super::report_history) have files of their own.

use std::io;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;
use tracing::field::{DisplayValue, display};
use tracing::{debug, error, info, warn};

use super::kernel::{ComparisonTrigger, DriftKind};
use super::outcome::{
    Attempt, Failure, NextStep, NodeFault, Outcome, QuarantineRetry, Quarantined, SearchResult,
    SyncMode, TrialFailure,
};
use super::problems::{ServiceProblem, ServiceProblems};
use super::quarantine::{Fallback, QuarantineCause};
use super::schedule::{FullReason, Scope, SyncResult};
use crate::clock;
use crate::events::{Event, Recorder};
use crate::health::{CheckAddresses, CheckChanges, Health, NodeState};
use crate::history::HistoryLog;
use crate::host::RestoreError;
use crate::model::{Change, MOST_ENDPOINTS, ServiceName};
use crate::net::IpFamily;
use crate::render::{LocalDetector, NodePortAddresses, RuleCounts};
use crate::rules::Table;
use crate::select::MAX_SLICES;
use crate::status::{
    ConflictRecord, FailureRecord, FamilyLog, FamilyStatus, LimitRecord, QuarantinedService,
    SyncRecord, UndetectedPods,
};
use crate::telemetry::{SyncKind, SyncMetrics};
use crate::tracker::{Tracker, UnappliedObjects};

#[derive(Clone)]
pub(crate) struct Reporter {
    pub family: IpFamily,
    pub mode: SyncMode,
    pub metrics: SyncMetrics,
    pub health: Health,
    /// State to report for the node while it has no Node object.
    pub without_node: NodeState,
    /// Channel to the servers of health check node ports; `None`: they are disabled.
    pub health_check_servers: Option<UnboundedSender<CheckChanges>>,
    pub recorder: Recorder,
    /// Name of this node, for the text of Events.
    pub node_name: String,
    pub log: FamilyLog,
    /// Records of syncs; `None` without `--state-dir`.
    pub history: Option<HistoryLog>,
}

/// Claims for a frontend of another Service that pages show.
const MOST_CONFLICTS: usize = 10;

/// Number of failed syncs in a row from which each makes an Event: a single one is soon retried.
const FAILED_SYNCS_FOR_EVENT: u32 = 2;

/// Log target of the text of partial restores.
const PAYLOAD: &str = "deltaproxy::payload";

impl Reporter {
    /// Creates the metrics of the family with all of their labels, and reports its first sync as
    /// queued, even before all objects are listed.
    ///
    /// Upstream: pkg/proxy/iptables/proxier.go, `SyncLoop` (v1.37)
    pub(super) fn serving(&self) {
        let reasons = FullReason::ALL.map(FullReason::as_str);
        let causes = QuarantineCause::ALL.map(QuarantineCause::as_str);
        self.metrics.restores.serving(self.family, &reasons);
        self.metrics.quarantine.serving(self.family, &causes);
        let drift = &self.metrics.drift;
        for table in Table::ALL {
            drift.unreadable(self.family, table.as_str(), false);
        }
        let triggers = ComparisonTrigger::ALL.map(ComparisonTrigger::as_str);
        let tables = Table::ALL.map(Table::as_str);
        let kinds = DriftKind::ALL.map(DriftKind::as_str);
        drift.checking(self.family, &triggers, &tables, &kinds);
        self.metrics.serving(self.family);
        self.metrics.queued(self.family, clock::wall());
    }

    /// Returns the state of the family for the pages.
    pub(super) fn status(&self) -> FamilyStatus {
        self.log.status(clock::now())
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
                let is_missing = state == NodeState::Unknown;
                self.log
                    .update(|status| status.is_node_missing = is_missing);
                self.health.update(|health| health.node(state));
            }
            Change::Listed(kind) => {
                debug!(family = %self.family, kind = kind.as_str(), "listed");
            }
            _ => {}
        }
    }

    /// Reports the number of changes that wait for a sync.
    pub(crate) fn pending(&self, tracker: &Tracker) {
        self.unapplied(tracker.unapplied());
    }

    /// Reports that the family is disabled, so that no change waits for a sync.
    pub(crate) fn family_disabled(&self) {
        self.log.update(|status| status.is_disabled = true);
        self.unapplied(UnappliedObjects::default());
    }

    fn unapplied(&self, UnappliedObjects { services, slices }: UnappliedObjects) {
        self.log
            .update(|status| status.pending_services = services as u64);
        self.metrics.pending(self.family, services, slices);
    }

    pub(super) fn queued(&self, now: Instant) {
        let at = clock::wall();
        self.metrics.queued(self.family, at);
        self.log.update(|status| {
            status.waiting_since.get_or_insert(clock::timestamp(at));
        });
        self.health.update(|health| health.queued(self.family, now));
    }

    pub(super) fn began(&self) {
        self.health.update(|health| health.began(self.family));
    }

    /// Reports the end of a sync. For logs, `retry` has the number of syncs in a row that failed,
    /// and the time until the next one, unless a change of the cluster triggers it earlier.
    pub(crate) fn finished(
        &self,
        outcome: &Outcome,
        tracker: &Tracker,
        ended: Instant,
        retry: (u32, Duration),
    ) {
        let at = clock::wall();
        self.notices(&outcome.notices);
        for (position, attempt) in outcome.attempts.iter().enumerate() {
            self.attempt(attempt, outcome, outcome.step_after(position), retry);
        }
        self.record_history(outcome, tracker, clock::timestamp(at));
        self.quarantine(outcome);
        self.pending(tracker);
        self.log
            .update(|status| log_sync(status, outcome, retry.0, clock::timestamp(at)));
        let conflicts = tracker.frontend_conflicts();
        self.metrics
            .restores
            .frontend_conflicts(self.family, conflicts);
        self.log.update(|status| {
            let first = tracker.lost_frontends().take(MOST_CONFLICTS);
            status.conflict_count = conflicts as u64;
            status.conflicts = first.map(|lost| ConflictRecord::new(&lost)).collect();
        });
        match outcome.result() {
            SyncResult::Failed => {
                self.health
                    .update(|health| health.failed(self.family, ended));
                let (failed_syncs, _) = retry;
                if failed_syncs >= FAILED_SYNCS_FOR_EVENT {
                    let note = failure_note(self.family, &self.node_name, outcome, failed_syncs);
                    self.recorder.record(Event::SyncFailed(note));
                }
            }
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

    /// Reports that a sync was applied after this number of failed ones: the log does not show a
    /// partial sync by default.
    pub(super) fn recovered(&self, failed_syncs: u32) {
        info!(family = %self.family, failed_syncs, "sync succeeded after failures");
    }

    /// Sends the changes of health check node ports after a sync, with the addresses of NodePorts.
    /// An empty change is sent as well: the servers retry ports that could not be opened.
    pub(super) fn health_check_ports(
        &self,
        outcome: &Outcome,
        tracker: &Tracker,
        addresses: &NodePortAddresses,
    ) {
        let Some(servers) = &self.health_check_servers else {
            return;
        };
        // A search that ended with a fault of the node is a failure, but may have applied some.
        if outcome.result() == SyncResult::Failed && outcome.applied.before.is_empty() {
            return;
        }
        let addresses = match addresses {
            NodePortAddresses::All => CheckAddresses::All,
            NodePortAddresses::Only(ips) => CheckAddresses::Only(ips.clone()),
        };
        let changes = CheckChanges::new(addresses, &outcome.applied.before, tracker);
        // Without a receiver the process is shutting down.
        let _ = servers.send(changes);
    }

    fn attempt(
        &self,
        attempt: &Attempt,
        outcome: &Outcome,
        next: NextStep,
        retry: (u32, Duration),
    ) {
        let kind = match attempt.scope {
            Scope::Full(_) => SyncKind::Full,
            Scope::Partial | Scope::Adoption => SyncKind::Partial,
        };
        let restores = &self.metrics.restores;
        self.metrics.synced(self.family, kind, attempt.took);
        if let Scope::Full(reason) = attempt.scope {
            restores.full_sync(self.family, reason.as_str());
            if reason == FullReason::Flushed {
                let note = flush_note(self.family, &self.node_name);
                self.recorder.record(Event::RulesFlushed(note));
            }
        }
        restores.lock_waited(self.family, lock_wait(attempt));
        if let Some(reason) = attempt.declined {
            debug!(family = %self.family, reason, "rules in the kernel are not adopted");
        }
        match &attempt.result {
            Ok(()) => {
                // Without a payload no process was started.
                if attempt.stats.bytes > 0 {
                    restores.restored(kind, attempt.stats.bytes);
                }
                self.rule_counts(outcome, attempt.stats.rules);
                log_success(self.family, attempt, outcome.dirty, self.mode);
            }
            Err(failure) => {
                if let Failure::Restore { .. } = failure {
                    restores.restore_failed(self.family, kind);
                }
                log_failure(self.family, attempt, (failure, next), retry);
            }
        }
    }

    pub(super) fn rule_counts(&self, outcome: &Outcome, in_last_restore: RuleCounts) {
        let (total, last) = (outcome.rules, in_last_restore);
        for (table, total, last) in [
            ("filter", total.filter, last.filter),
            ("nat", total.nat, last.nat),
        ] {
            let count = |rules| usize::try_from(rules).unwrap_or(usize::MAX);
            self.metrics
                .rules(self.family, table, count(total), count(last));
        }
        self.metrics.tree_chains(self.family, outcome.tree_chains);
        for (policy, ports) in [
            ("internal", outcome.totals.internal_dropped),
            ("external", outcome.totals.external_dropped),
        ] {
            self.metrics.no_local_endpoints(self.family, policy, ports);
        }
    }

    /// Logs that the addresses of the node cannot be read.
    pub(super) fn addresses_unreadable(&self, cause: &io::Error) {
        error!(
            family = %self.family,
            "reading the addresses of this node failed: {cause}; NodePorts that are limited by \
             --nodeport-addresses keep the addresses of the last sync, retrying with the next sync"
        );
    }

    /// Reports Services that began to lack rules with this sync, and the number of Services over
    /// each limit.
    pub(super) fn problems(&self, found: &[(ServiceName, ServiceProblem)], all: &ServiceProblems) {
        let family = self.family;
        for (service, problem) in found {
            let text = problem_text(service, problem);
            warn!(%family, "{text}");
            if problem.is_over_limit() {
                let note = format!("node {}: {family}: {text}", self.node_name);
                self.recorder
                    .record(Event::ServiceOverLimit(service.clone(), note));
            }
        }
        for (limit, services) in all.over_limits() {
            self.metrics
                .restores
                .over_limit(self.family, limit, services);
        }
        let over = all.over_limits().filter(|(_, services)| *services > 0);
        let over = over.map(|(limit, services)| LimitRecord {
            limit: limit.to_owned(),
            services: services as u64,
        });
        self.log
            .update(|status| status.over_limits = over.collect());
    }

    /// Reports the number of service ports with endpoints on this node that the match for local Pod
    /// traffic does not recognize.
    pub(super) fn undetected_pods(&self, service_ports: usize, detector: &LocalDetector) {
        let undetected = match detector {
            LocalDetector::Cidr(network) if service_ports > 0 => Some(UndetectedPods {
                service_ports: service_ports as u64,
                network: network.to_string(),
            }),
            _ => None,
        };
        self.log
            .update(|status| status.undetected_pods = undetected);
    }

    /// Reports the search, the quarantine retry and the Services in quarantine.
    pub(super) fn quarantine(&self, outcome: &Outcome) {
        let metrics = &self.metrics.quarantine;
        if let Some(search) = &outcome.search {
            metrics.trial_restores(self.family, search.restores, search.failed);
            for quarantined in &search.quarantined {
                metrics.quarantined(self.family, quarantined.cause.as_str());
                let note = quarantine_note(self.family, &self.node_name, quarantined);
                self.recorder
                    .record(Event::ServiceQuarantined(quarantined.name.clone(), note));
            }
            log_search(self.family, search);
            // A continued search follows a sync that was applied.
            if outcome
                .attempts
                .iter()
                .any(|attempt| attempt.result.is_err())
            {
                log_held_back(self.family, &search.held_back);
            }
        }
        if let Some(retry) = &outcome.quarantine_retry {
            metrics.trial_restores(self.family, retry.restores, retry.failed);
            log_retry(self.family, retry);
        }
        // Not after a failure: the applied state may have been cleared, and with it these counts.
        // All rules stand for those of the last restore: a search does not count the rules in each.
        let has_searched = outcome.search.is_some() || outcome.quarantine_retry.is_some();
        if has_searched && outcome.result() == SyncResult::Applied {
            self.rule_counts(outcome, outcome.rules);
        }
        metrics.in_quarantine(self.family, outcome.overridden.len());
    }
}

/// Notes the end of a sync for the pages.
fn log_sync(status: &mut FamilyStatus, outcome: &Outcome, failed_syncs: u32, at: Timestamp) {
    for (position, attempt) in outcome.attempts.iter().enumerate() {
        let scope = attempt.scope.as_str().to_owned();
        match &attempt.result {
            Ok(()) => status.synced(SyncRecord {
                at,
                scope,
                reason: full_reason(attempt.scope),
                took_ms: milliseconds(attempt.took),
                bytes: attempt.stats.bytes,
                chains: attempt.stats.chains,
                services: outcome.dirty as u64,
                lock_wait_ms: milliseconds(lock_wait(attempt)),
            }),
            Err(failure) => {
                let next = outcome.step_after(position);
                status.last_failure = Some(FailureRecord {
                    at,
                    scope,
                    error: failure_text(failure),
                    consequence: failure_consequence(failure, next).to_owned(),
                });
            }
        }
    }
    let found = outcome.search.iter().flat_map(|search| &search.quarantined);
    status
        .quarantined
        .extend(found.map(|found| QuarantinedService {
            service: found.name.to_string(),
            error: found.error.clone(),
            consequence: consequence(found.fallback).to_owned(),
        }));
    let is_known = |one: &mut QuarantinedService| {
        let mut names = outcome.overridden.iter();
        names.any(|name| name.as_str() == one.service)
    };
    status.quarantined.retain_mut(is_known);
    status
        .quarantined
        .sort_by(|one, other| one.service.cmp(&other.service));
    status
        .quarantined
        .dedup_by(|one, other| one.service == other.service);
    match outcome.result() {
        SyncResult::Applied => {
            status.generation += 1;
            status.failed_syncs = 0;
            status.rules = outcome.rules.total();
            status.endpoints = outcome.totals.endpoints as u64;
            // Requests during the sync wait for the next one, from now on.
            status.waiting_since = (status.pending_services > 0).then_some(at);
        }
        SyncResult::Failed => status.failed_syncs = failed_syncs.into(),
    }
}

/// Returns the reason of a full sync; empty for others.
pub(super) fn full_reason(scope: Scope) -> String {
    match scope {
        Scope::Full(reason) => reason.as_str().to_owned(),
        Scope::Partial | Scope::Adoption => String::new(),
    }
}

/// Returns the wait for the xtables lock, acquired or not.
fn lock_wait(attempt: &Attempt) -> Duration {
    match attempt.result {
        Err(Failure::Restore {
            error: RestoreError::Locked { waited, .. },
            ..
        }) => waited,
        _ => attempt.lock_wait,
    }
}

/// Logs an attempt that was applied, with the number of dirty Services.
fn log_success(family: IpFamily, attempt: &Attempt, services: usize, mode: SyncMode) {
    let reason = match attempt.scope {
        Scope::Full(reason) => reason.as_str(),
        Scope::Adoption => "adopted rules differ",
        Scope::Partial if services == 0 => "rules repaired",
        Scope::Partial => "services changed",
    };
    let stats = attempt.stats;
    if stats.bytes == 0 {
        if attempt.scope == Scope::Adoption {
            info!(%family, services, "rules in the kernel adopted: nothing to write");
        } else {
            debug!(%family, services, "nothing to write");
        }
        return;
    }
    let message = match mode {
        SyncMode::Restore => "synced",
        SyncMode::DryRun | SyncMode::Shadow => "would sync",
    };
    macro_rules! synced {
        ($level:ident) => {
            $level!(
                %family,
                scope = attempt.scope.as_str(),
                reason,
                services,
                chains = stats.chains,
                rules = stats.rules.total(),
                bytes = stats.bytes,
                took_ms = milliseconds(attempt.took),
                "{message}"
            )
        };
    }
    // Partial restores are steady work: there may be many a second, on every node.
    match attempt.scope {
        Scope::Partial => synced!(debug),
        Scope::Full(_) | Scope::Adoption => synced!(info),
    }
    if !attempt.payload.is_empty() {
        let text = String::from_utf8_lossy(&attempt.payload);
        debug!(target: PAYLOAD, %family, payload = %format_args!("\n{text}"), "restored");
    }
}

/// Logs an attempt that failed, with the step that followed, or the retry that follows.
fn log_failure(
    family: IpFamily,
    attempt: &Attempt,
    (failure, next): (&Failure, NextStep),
    (failed_syncs, delay): (u32, Duration),
) {
    let (scope, took_ms) = (attempt.scope, milliseconds(attempt.took));
    let what = match failure {
        Failure::Read(_) => "reading the rules in the kernel failed",
        Failure::Restore { .. } => "restore failed",
    };
    let (consequence, is_retried) = (failure_consequence(failure, next), next == NextStep::Retry);
    let cause = failure_text(failure);
    error!(
        %family, scope = scope.as_str(), took_ms, %cause,
        failed_syncs = is_retried.then_some(failed_syncs),
        retry_in_s = is_retried.then_some(delay.as_secs_f64()),
        "{what}; {consequence}"
    );
}

/// Returns the text of a failure on one line, with the rejected line of the payload.
pub(super) fn failure_text(failure: &Failure) -> String {
    let excerpt = match failure {
        Failure::Restore {
            excerpt: Some(excerpt),
            ..
        } => format!("; {excerpt}").replace('\n', "; "),
        _ => String::new(),
    };
    failure.on_one_line() + &excerpt
}

/// Returns the consequence of a failed attempt, in the past tense for steps of the same sync:
/// reports follow its end.
pub(super) const fn failure_consequence(failure: &Failure, next: NextStep) -> &'static str {
    match (next, failure) {
        (NextStep::Attempt(Scope::Full(_)), _) => {
            "changes were delayed; followed by a full restore at once"
        }
        (NextStep::Attempt(_), _) => {
            "changes were delayed; followed by a restore of the changed rules alone at once"
        }
        (NextStep::Search, _) => {
            "changes were delayed; followed by a search for the Services that make it fail, so that \
             all others are applied"
        }
        (NextStep::Retry, Failure::Read(_)) => {
            "the rules in the kernel stay, so removed endpoints still get traffic; retrying"
        }
        (
            NextStep::Retry,
            Failure::Restore {
                error: RestoreError::Locked { .. },
                ..
            },
        ) => {
            "changes are delayed while another program holds the xtables lock, so removed endpoints \
             still get traffic; retrying. If it keeps the lock, find it: `fuser -v /run/xtables.lock`"
        }
        // Its cause has a hint to install the binary.
        (
            NextStep::Retry,
            Failure::Restore {
                error: RestoreError::Spawn { .. },
                ..
            },
        ) => "changes are delayed, so removed endpoints still get traffic; retrying",
        // No search follows if one found no Service at fault a moment ago.
        (NextStep::Retry, Failure::Restore { .. }) => {
            "changes are delayed, so removed endpoints still get traffic; retrying. The cause is \
             likely on this node: check the iptables binaries, their privileges, kernel modules and \
             memory"
        }
    }
}

/// Returns milliseconds, rounded to a tenth.
pub(super) fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e4).round() / 10.0
}

/// Returns the log text for a Service that lacks rules.
fn problem_text(service: &ServiceName, problem: &ServiceProblem) -> String {
    match problem {
        ServiceProblem::Endpoints { ports } => format!(
            "Service `{service}` has more than {MOST_ENDPOINTS} endpoints: clients of {ports} of \
             its ports are rejected as if these had no endpoints; split the Service"
        ),
        ServiceProblem::Slices { ignored } => format!(
            "Service `{service}` has more than {MAX_SLICES} EndpointSlices: endpoints of the last \
             {ignored}, by name, get no traffic; split the Service"
        ),
        ServiceProblem::NamespaceEndpoints { limit } => format!(
            "clients of Service `{service}` are rejected as if it had no endpoints: the Services of \
             its namespace have more than {limit} endpoints, and it is one of the largest; remove \
             endpoints, or split the namespace"
        ),
        ServiceProblem::NamespaceRules { limit } => format!(
            "Service `{service}` has no rules: the number of ports in its namespace, times their \
             addresses and source ranges, exceeds {limit}, and it is one of the largest; remove \
             ports or addresses, or split the namespace"
        ),
        ServiceProblem::Frontends {
            first,
            holder,
            count,
        } => {
            let more = match count - 1 {
                0 => String::new(),
                more => format!(", and loses {more} more in the same way"),
            };
            format!(
                "Service `{service}` gets no traffic for {first}, which Service `{holder}` \
                 has{more}; remove the address or port from one of the two"
            )
        }
    }
}

/// Returns the text of the Event about a full restore after a flush.
fn flush_note(family: IpFamily, node: &str) -> String {
    format!(
        "node {node}: another program flushed the {family} rules, or changed most of them; all are \
         restored. Find what removes them: a firewall service that reloads, or a second proxy"
    )
}

/// Returns the text of the Event about syncs that fail.
fn failure_note(family: IpFamily, node: &str, outcome: &Outcome, failed_syncs: u32) -> String {
    let last = outcome.attempts.last();
    let failure = last.and_then(|attempt| attempt.result.as_ref().err());
    let cause = failure.map_or(String::new(), |failure| {
        format!(": {}", failure.on_one_line())
    });
    format!(
        "node {node}: {failed_syncs} syncs of the {family} rules in a row failed; the last good \
         rules stay, so changes of Services since then are not in the kernel{cause}"
    )
}

const fn consequence(fallback: Fallback) -> &'static str {
    match fallback {
        Fallback::LastApplied => "its last applied rules stay, its changes are skipped",
        Fallback::NoEndpoints => "its clients are rejected as if it had no endpoints",
        Fallback::NoRules => "it has no rules",
    }
}

/// Returns the text of the Event about a Service in quarantine.
fn quarantine_note(family: IpFamily, node: &str, quarantined: &Quarantined) -> String {
    let consequence = consequence(quarantined.fallback);
    format!(
        "node {node}: {family} rules of the Service make iptables-restore fail; {consequence}: {}",
        quarantined.error
    )
}

/// Returns the cause of a fault as a log field; `None`: no field.
fn shown(fault: &NodeFault) -> Option<DisplayValue<&str>> {
    fault.cause.as_deref().map(display)
}

/// Logs the Services that were put into quarantine, with the consequence.
fn log_search(family: IpFamily, search: &SearchResult) {
    let (restores, failed) = (search.restores, search.failed);
    if let Some(fault) = &search.node_fault {
        warn!(
            %family, restores, failed, cause = shown(fault),
            "the search found no Service that makes restores fail, and quarantined none: the \
             cause is likely on this node. Changes that were not applied yet wait until a restore \
             succeeds; retrying. Check the iptables binaries, their privileges, kernel modules, \
             memory and programs that hold the xtables lock"
        );
        return;
    }
    for Quarantined {
        name,
        cause,
        error,
        fallback,
    } in &search.quarantined
    {
        let consequence = consequence(*fallback);
        warn!(
            %family, service = %name, kind = cause.as_str(), cause = %error,
            "Service quarantined because its rules make restores fail: {consequence}. Other \
             Services are not affected. Change or delete it; retrying it at growing intervals"
        );
    }
    if search.held_back.is_empty() {
        info!(
            %family, restores, failed,
            "search for the Services that make restores fail ended"
        );
    }
}

/// Logs the namespaces whose Services are held back by a search that has just begun.
fn log_held_back(family: IpFamily, held_back: &[ServiceName]) {
    for services in held_back.chunk_by(|one, other| one.namespace() == other.namespace()) {
        let (count, namespace) = (services.len(), services.first().map(ServiceName::namespace));
        let namespace = namespace.unwrap_or_default();
        warn!(
            %family, namespace, services = count,
            "changes of Services held back: a restore of them together fails, and it is not known \
             yet which of them make it fail. Other Services are not affected; the search continues"
        );
    }
}

fn log_retry(family: IpFamily, retry: &QuarantineRetry) {
    let service = &retry.name;
    match &retry.result {
        Ok(after) => {
            let after_s = after.as_secs();
            info!(%family, %service, after_s, "Service released from quarantine: its rules are applied");
        }
        Err(TrialFailure::Rules { failure, .. }) => {
            let cause = failure.on_one_line();
            debug!(%family, %service, %cause, "Service stays in quarantine: its restore failed again");
        }
        Err(TrialFailure::Node(fault)) => {
            debug!(
                %family, %service, cause = shown(fault),
                "Service stays in quarantine: its restore failed, likely because of this node"
            );
        }
    }
    if let Some(fault) = &retry.left_damaged {
        error!(
            %family, %service, cause = shown(fault),
            "retry of a quarantined Service and the restore after it failed, so the rules in the \
             kernel are unknown: Services may be unreachable until a full restore succeeds; \
             retrying"
        );
    }
}
