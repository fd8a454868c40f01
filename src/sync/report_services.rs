//! Reports Services that lack some or all of their rules: those over limits, those that lose
//! frontends, and those in quarantine.

use tracing::field::{DisplayValue, display};
use tracing::{debug, error, info, warn};

use super::outcome::{NodeFault, Outcome, QuarantineRetry, Quarantined, RetryResult, SearchResult};
use super::pacer::SyncResult;
use super::problems::{FoundProblem, ServiceProblem, ServiceProblems};
use super::quarantine::Fallback;
use super::report::Reporter;
use crate::events::Event;
use crate::health::ServiceSummary;
use crate::model::{MOST_ENDPOINTS, ServiceName};
use crate::net::IpFamily;
use crate::select::MAX_SLICES;

impl Reporter {
    /// Reports Services that began to lack rules with this sync, and the number of Services over
    /// each limit.
    pub(super) fn problems(&self, found: &[FoundProblem], all: &ServiceProblems) {
        for problem in found {
            log_problem(self.family, problem);
        }
        for (limit, services) in all.over_limits() {
            self.metrics
                .restores
                .over_limit(self.family, limit.as_str(), services);
        }
    }

    /// Reports the search, the quarantine retry and the Services in quarantine.
    pub(super) fn quarantine(&self, outcome: &Outcome) {
        if let Some(search) = &outcome.search {
            self.metrics
                .quarantine
                .trial_restores(self.family, search.restores, search.failed);
            for quarantined in &search.quarantined {
                self.metrics
                    .quarantine
                    .quarantined(self.family, quarantined.cause.as_str());
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
            self.metrics
                .quarantine
                .trial_restores(self.family, retry.restores, retry.failed);
            log_retry(self.family, retry);
        }
        // Not after a failure: the applied state may have been cleared, and with it these counts.
        // All rules stand for those of the last restore: a search does not count the rules in each.
        let has_searched = outcome.search.is_some() || outcome.quarantine_retry.is_some();
        if has_searched && outcome.result() == SyncResult::Applied {
            self.rule_counts(outcome, outcome.rules);
        }
        let names = &outcome.quarantined;
        self.metrics
            .quarantine
            .in_quarantine(self.family, names.len());
        let names = ServiceSummary::new(names.iter());
        self.health
            .update(|health| health.quarantined(self.family, names));
    }
}

/// Logs that a Service lacks rules.
fn log_problem(family: IpFamily, (service, problem): &FoundProblem) {
    match problem {
        ServiceProblem::Endpoints { ports } => warn!(%family,
            "Service `{service}` has more than {MOST_ENDPOINTS} endpoints: clients of {ports} of \
             its ports are rejected as if these had no endpoints; split the Service"),
        ServiceProblem::Slices { ignored } => warn!(%family,
            "Service `{service}` has more than {MAX_SLICES} EndpointSlices: endpoints of the last \
             {ignored}, by name, get no traffic; split the Service"),
        ServiceProblem::NamespaceEndpoints { limit } => warn!(%family,
            "clients of Service `{service}` are rejected as if it had no endpoints: the Services of \
             its namespace have more than {limit} endpoints, and it is one of the largest; remove \
             endpoints, or split the namespace"),
        ServiceProblem::NamespaceRules { limit } => warn!(%family,
            "Service `{service}` has no rules: the number of ports in its namespace, times their \
             addresses and source ranges, exceeds {limit}, and it is one of the largest; remove \
             ports or addresses, or split the namespace"),
        ServiceProblem::Frontends {
            first,
            holder,
            count,
        } => {
            let more = match count - 1 {
                0 => String::new(),
                more => format!(", and loses {more} more in the same way"),
            };
            warn!(%family,
                "Service `{service}` gets no traffic for {first}, which Service `{holder}` has{more}; \
                 remove the address or port from one of the two");
        }
    }
}

/// Returns the consequence for a Service in quarantine.
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

/// Logs the retry of a Service in quarantine.
fn log_retry(family: IpFamily, retry: &QuarantineRetry) {
    let service = &retry.name;
    match &retry.result {
        RetryResult::Released(after) => {
            let after_s = after.as_secs();
            info!(%family, %service, after_s, "Service released from quarantine: its rules are applied");
        }
        RetryResult::Failed(failure) => {
            let cause = failure.on_one_line();
            debug!(%family, %service, %cause, "Service stays in quarantine: its restore failed again");
        }
        RetryResult::NodeFault(fault) => {
            debug!(
                %family, %service, cause = shown(fault),
                "Service stays in quarantine: its restore failed, likely because of this node"
            );
        }
    }
    if let Some(fault) = &retry.kernel_unknown {
        error!(
            %family, %service, cause = shown(fault),
            "retry of a quarantined Service and the restore after it failed, so the rules in the \
             kernel are unknown: Services may be unreachable until a full restore succeeds; \
             retrying"
        );
    }
}
