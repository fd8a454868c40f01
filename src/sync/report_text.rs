//! Log records and texts of Events about syncs, checks and quarantine. Each record is one line.

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::decide::Scope;
use super::drift::{Compared, Drift};
use super::guarded_chain_check::CheckResult;
use super::outcome::{
    Attempt, Failure, Isolation, NextStep, QuarantineRetry, Quarantined, SyncMode, on_one_line,
};
use super::problems::{FoundProblem, ServiceProblem};
use super::quarantine::Fallback;
use super::repair_backoff::Edited;
use crate::host::RunError;
use crate::model::MOST_ENDPOINTS;
use crate::net::IpFamily;
use crate::select::MOST_SLICES;

/// Log target of the text of partial restores.
const PAYLOAD: &str = "deltaproxy::payload";

/// Logs side findings of an attempt, before its result.
pub(super) fn notices(family: IpFamily, attempt: &Attempt) {
    if let Some(cause) = &attempt.no_counter {
        info!(%family, %cause, "cannot create nfacct counters: some packets are not counted");
    }
    if let Some(reason) = attempt.declined {
        debug!(%family, reason = reason.as_str(), "rules in the kernel are not adopted");
    }
    for (table, cause) in &attempt.unread {
        let cause = on_one_line(&cause.to_string());
        warn!(
            %family, %table,
            "stale chains stay in this table, because reading it failed: {cause}; find the rule or \
             the program that keeps it from being read"
        );
    }
}

/// Logs that a Service lacks rules.
pub(super) fn problem(family: IpFamily, (service, problem): &FoundProblem) {
    match problem {
        ServiceProblem::Endpoints(ports) => warn!(%family,
            "Service `{service}` has more than {MOST_ENDPOINTS} endpoints: clients of {ports} of \
             its ports are rejected as if these had no endpoints; split the Service"),
        ServiceProblem::Slices(slices) => warn!(%family,
            "Service `{service}` has more than {MOST_SLICES} EndpointSlices: endpoints of the last \
             {slices}, by name, get no traffic; split the Service"),
        ServiceProblem::NamespaceEndpoints(most) => warn!(%family,
            "clients of Service `{service}` are rejected as if it had no endpoints: the Services of \
             its namespace have more than {most} endpoints, and it is one of the largest; remove \
             endpoints, or split the namespace"),
        ServiceProblem::NamespaceRules(most) => warn!(%family,
            "Service `{service}` has no rules: the ports of its namespace, times their addresses and \
             source ranges, are more than {most}, and it is one of the largest; remove ports or \
             addresses, or split the namespace"),
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

/// Logs an attempt that was applied, with the number of dirty Services.
pub(super) fn success(family: IpFamily, attempt: &Attempt, services: usize, mode: SyncMode) {
    let reason = match attempt.scope {
        Scope::Full(reason) => reason.as_str(),
        Scope::Adoption => "other rules adopted",
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
        SyncMode::DryRun => "would sync",
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

/// Logs an attempt that failed, with the step that follows.
pub(super) fn failure(family: IpFamily, attempt: &Attempt, failure: &Failure, next: NextStep) {
    let (scope, took_ms) = (attempt.scope, milliseconds(attempt.took));
    let what = match failure {
        Failure::Save(_) => "reading the rules in the kernel failed",
        Failure::Restore(..) => "restore failed",
    };
    let consequence = failure_consequence(failure, next);
    let excerpt = match failure {
        Failure::Restore(_, Some(excerpt)) => format!("; {excerpt}").replace('\n', "; "),
        _ => String::new(),
    };
    let cause = failure.on_one_line() + &excerpt;
    error!(%family, scope = scope.as_str(), took_ms, %cause, "{what}; {consequence}");
}

/// Returns the consequence of a failed attempt.
pub(super) const fn failure_consequence(failure: &Failure, next: NextStep) -> &'static str {
    match (next, failure) {
        (NextStep::Attempt(Scope::Full(_)), _) => "a full restore follows at once",
        (NextStep::Attempt(_), _) => "a restore of the changed rules alone follows at once",
        (NextStep::Search, _) => "searching for the Services that make it fail",
        (NextStep::Retry, Failure::Save(_)) => {
            "the rules in the kernel stay, changes are delayed; retrying"
        }
        (NextStep::Retry, Failure::Restore(cause, _)) => {
            if cause.committed_if_retriable().is_some() {
                "no change is lost; retrying"
            } else {
                "changes are delayed; retrying"
            }
        }
    }
}

/// Returns the consequence for a Service in quarantine.
const fn consequence(fallback: Fallback) -> &'static str {
    match fallback {
        Fallback::LastApplied => "its last applied rules stay, its changes are skipped",
        Fallback::NoEndpoints => "its clients are rejected as if it had no endpoints",
        Fallback::LeftOut => "it has no rules",
    }
}

/// Returns the text of the Event about a Service in quarantine.
pub(super) fn quarantine_note(family: IpFamily, node: &str, quarantined: &Quarantined) -> String {
    let consequence = consequence(quarantined.fallback);
    format!(
        "node {node}: {family} rules of the Service make iptables-restore fail; {consequence}: {}",
        quarantined.error
    )
}

/// Logs the Services that were put into quarantine, with the consequence.
pub(super) fn isolation(family: IpFamily, isolation: &Isolation) {
    let (restores, failed) = (isolation.restores, isolation.failed);
    if isolation.is_node_fault {
        info!(
            %family, restores, failed,
            "restores fail for all Services alike: no Service is quarantined, because the node is \
             at fault (binaries, kernel modules or memory); retrying"
        );
        return;
    }
    for Quarantined {
        name,
        cause,
        error,
        fallback,
    } in &isolation.quarantined
    {
        let consequence = consequence(*fallback);
        warn!(
            %family, service = %name, cause = cause.as_str(), %error,
            "Service quarantined because its rules make restores fail: {consequence}. Other \
             Services are not affected. Change or delete it; retrying it at growing intervals"
        );
    }
    let unresolved = isolation.unresolved.len();
    info!(
        %family, restores, failed, unresolved,
        "search for the Services that make restores fail ended"
    );
}

/// Logs the retry of a Service in quarantine.
pub(super) fn retry(family: IpFamily, retry: &QuarantineRetry) {
    let service = &retry.name;
    match &retry.result {
        Ok(after) => {
            let after_s = after.as_secs();
            info!(%family, %service, after_s, "Service released from quarantine: its rules are applied");
        }
        Err(failure) => {
            let error = failure.as_ref().map(Failure::on_one_line);
            let error = error.unwrap_or_default();
            debug!(%family, %service, %error, "Service stays in quarantine: its restore failed again");
        }
    }
    if retry.is_lost {
        error!(
            %family,
            "retry of a quarantined Service failed and left the kernel in an unknown state; \
             retrying with a full restore"
        );
    }
}

/// Logs the findings of a check of fixed chains and jumps that are new.
pub(super) fn checked(family: IpFamily, result: &CheckResult) {
    for (table, cause) in &result.newly_unreadable {
        let is_unprintable = matches!(cause, RunError::Unprintable { .. });
        let consequence = if is_unprintable {
            "cannot print all rules of this table because of a third-party rule; until it is \
             removed, jumps are checked one by one"
        } else {
            "check of the rules in this table failed; a flush goes unnoticed until a check succeeds, \
             retrying"
        };
        let cause = on_one_line(&cause.to_string());
        warn!(%family, %table, "{consequence}: {cause}");
    }
    for table in &result.readable_again {
        info!(%family, %table, "table is readable again");
    }
    if let Some((table, _)) = &result.gone {
        warn!(
            %family, %table,
            "rules were flushed or deleted by another program, Services may be unreachable; \
             restoring all rules. Find what removes them"
        );
    }
    for Edited {
        chain: (table, chain),
        wait,
        is_back,
    } in &result.edited
    {
        let which = if *is_back {
            "third-party rules are back in"
        } else {
            "third-party rules found in"
        };
        warn!(
            %family, %table, chain,
            "{which} a kube-proxy chain; removing them, and again in {wait:?} at the earliest. Find \
             what adds them: such rules belong into chains of their own"
        );
    }
}

/// Logs the differences between the rules in the kernel and the applied ones, if there are any.
pub(super) fn compared(family: IpFamily, compared: &Compared<'_>) {
    let trigger = compared.trigger.as_str();
    if let Some(cause) = compared.failure {
        let text = on_one_line(&cause.to_string());
        // After the first one only every doubling: a table may be unreadable for months. Rules that
        // cannot be printed are logged with their table.
        let is_logged = matches!(cause, RunError::Unprintable { .. });
        if compared.failed_readings.is_power_of_two() && !is_logged {
            warn!(
                %family, trigger, failed_readings = compared.failed_readings,
                "reading the rules in the kernel failed, retrying; until it succeeds, changes by \
                 other programs may go unnoticed: {text}"
            );
        } else {
            debug!(%family, trigger, "reading the rules in the kernel failed again: {text}");
        }
    }
    for ((table, kind), chains) in &compared.drift.counts {
        let kind = kind.as_str();
        debug!(%family, trigger, %table, kind, chains, "rules differ from the applied ones");
    }
    if compared.drift.is_none() {
        return;
    }
    let chains = compared.drift.names();
    let programs = program_names(compared.drift);
    if let Some(reason) = compared.drift.declined {
        let reason = reason.as_str();
        warn!(
            %family, trigger, reason, programs,
            "rules differ from the applied ones, Services may be unreachable; restoring all rules. \
             Find what changes them"
        );
    }
    let retry_after = compared.wait;
    if !retry_after.is_zero() {
        warn!(
            %family, trigger, programs, chains,
            "rules changed again by another program; restoring them in {retry_after:?}, Services may \
             be unreachable until then. Find what changes them: is a second proxy running on this \
             node?"
        );
    } else if compared.drift.has_names() {
        // A flushed table is logged with the check that found it.
        info!(
            %family, trigger, programs, chains,
            "rules changed by another program; restoring them"
        );
    }
}

/// Returns the names of the programs that changed rules; empty if the kernel reports none.
fn program_names(drift: &Drift) -> String {
    let programs = drift.programs.iter().map(String::as_str);
    programs.collect::<Vec<_>>().join(", ")
}

/// Returns the text of the Event about rules that another program changes again and again.
pub(super) fn contest_note(family: IpFamily, node: &str, drift: &Drift) -> String {
    let chains = if drift.has_names() {
        format!("chains {}", drift.names())
    } else {
        let tables: BTreeSet<_> = drift
            .counts
            .keys()
            .map(|(table, _)| table.as_str())
            .collect();
        format!("tables {}", Vec::from_iter(tables).join(", "))
    };
    let programs = program_names(drift);
    let by = if programs.is_empty() {
        "another program".to_owned()
    } else {
        format!("another program ({programs})")
    };
    format!(
        "node {node}: {family} rules are changed again and again by {by}, so repairs wait up to \
         60s: {chains}. Find what changes them: is a second proxy running on this node?"
    )
}

/// Logs the repair of rules that another program changed.
pub(super) fn repaired(family: IpFamily, after: Duration) {
    let after_ms = milliseconds(after);
    info!(%family, after_ms, "rules restored");
}

/// Returns milliseconds, rounded to a tenth.
fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e4).round() / 10.0
}
