//! Reports Services that lack some or all of their rules: those over limits, those that lose
//! frontends, and those in quarantine.

use tracing::{debug, error, info, warn};

use super::outcome::{Outcome, QuarantineRetry, Quarantined, RetryResult, SearchResult};
use super::pacer::SyncResult;
use super::problems::{FoundProblem, ServiceProblem, ServiceProblems};
use super::quarantine::Fallback;
use super::report::Reporter;
use crate::events::Event;
use crate::health::QuarantinedServices;
use crate::model::MOST_ENDPOINTS;
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
                .isolated(self.family, search.restores, search.failed);
            for quarantined in &search.quarantined {
                self.metrics
                    .quarantine
                    .quarantined(self.family, quarantined.cause.as_str());
                let note = quarantine_note(self.family, &self.node_name, quarantined);
                self.recorder
                    .record(Event::ServiceQuarantined(quarantined.name.clone(), note));
            }
            log_search(self.family, search);
        }
        if let Some(retry) = &outcome.quarantine_retry {
            self.metrics
                .quarantine
                .isolated(self.family, retry.restores, retry.failed);
            log_retry(self.family, retry);
        }
        // After a failure these counts would be wrong: the kernel still has the earlier rules.
        let has_searched = outcome.search.is_some() || outcome.quarantine_retry.is_some();
        if has_searched && outcome.result() == SyncResult::Applied {
            self.rule_counts(outcome, outcome.rules);
        }
        let names = &outcome.quarantined;
        self.metrics
            .quarantine
            .in_quarantine(self.family, names.len());
        let names = QuarantinedServices::new(names);
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

/// Logs the Services that were put into quarantine, with the consequence.
fn log_search(family: IpFamily, search: &SearchResult) {
    let (restores, failed) = (search.restores, search.failed);
    if search.is_node_fault {
        warn!(
            %family, restores, failed,
            "restores fail for all Services alike: the node is at fault, and no Service is \
             quarantined. No change of a Service has an effect until this is fixed: check the \
             iptables binaries, their privileges, kernel modules and memory; retrying"
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
            %family, service = %name, cause = cause.as_str(), %error,
            "Service quarantined because its rules make restores fail: {consequence}. Other \
             Services are not affected. Change or delete it; retrying it at growing intervals"
        );
    }
    let unresolved = search.unresolved.len();
    info!(
        %family, restores, failed, unresolved,
        "search for the Services that make restores fail ended"
    );
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
            let error = failure.on_one_line();
            debug!(%family, %service, %error, "Service stays in quarantine: its restore failed again");
        }
        RetryResult::NodeFault => {
            debug!(%family, %service, "Service stays in quarantine: the node made its restore fail");
        }
    }
    if retry.is_kernel_unknown {
        error!(
            %family,
            "retry of a quarantined Service failed and left the kernel in an unknown state; \
             retrying with a full restore"
        );
    }
}
