//! Log lines about syncs, checks and quarantine.

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::canary::CheckResult;
use super::decide::Scope;
use super::drift::Drift;
use super::edited::Edited;
use super::isolation::{Isolation, Quarantined, Retry};
use super::outcome::{Attempt, Failure};
use super::problems::{Found, Problem};
use super::quarantine::Fallback;
use super::report::Compared;
use crate::host::RunError;
use crate::model::MOST_ENDPOINTS;
use crate::net::IpFamily;
use crate::select::MOST_SLICES;

/// Log target of the text of partial restores.
const PAYLOAD: &str = "deltaproxy::payload";

/// Logs what an attempt noticed, before its result.
pub(super) fn asides(family: IpFamily, attempt: &Attempt) {
    if let Some(cause) = &attempt.no_counter {
        info!(%family, %cause, "some packets are not counted");
    }
    if let Some(reason) = attempt.declined {
        debug!(%family, reason = reason.as_str(), "the kernel's rules are not taken over");
    }
    for (table, cause) in &attempt.unread {
        warn!(%family, %table, "stale chains stay: cannot read the rules: {cause}");
    }
}

/// Logs that a Service lacks rules.
pub(super) fn problem(family: IpFamily, (service, problem): &Found) {
    match problem {
        Problem::Endpoints(ports) => warn!(%family,
            "Service `{service}` has more than {MOST_ENDPOINTS} endpoints: {ports} of its ports are \
             rejected like ports without endpoints; split the Service"),
        Problem::Slices(slices) => warn!(%family,
            "Service `{service}` has more than {MOST_SLICES} EndpointSlices: endpoints of the last \
             {slices}, by name, get no traffic; split the Service"),
        Problem::NamespaceEndpoints(most) => warn!(%family,
            "Service `{service}` is rejected like a Service without endpoints: the Services of its \
             namespace have more than {most} endpoints, and it is one of the largest; remove \
             endpoints, or split the namespace"),
        Problem::NamespaceRules(most) => warn!(%family,
            "Service `{service}` has no rules: the ports of its namespace, times their addresses and \
             source ranges, are more than {most}, and it is one of the largest; remove ports or \
             addresses, or split the namespace"),
        Problem::Frontends {
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
pub(super) fn success(family: IpFamily, attempt: &Attempt, services: usize) {
    let reason = match attempt.scope {
        Scope::Full(reason) => reason.as_str(),
        Scope::Adoption => "the rest was there",
        Scope::Partial => "services changed",
    };
    let stats = attempt.stats;
    if stats.bytes == 0 {
        if attempt.scope == Scope::Adoption {
            info!(%family, services, "all rules are there: nothing to write");
        } else {
            debug!(%family, services, "nothing to write");
        }
        return;
    }
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
                "synced"
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

/// Logs an attempt that failed.
pub(super) fn failure(family: IpFamily, attempt: &Attempt, failure: &Failure) {
    let (scope, took_ms) = (attempt.scope, milliseconds(attempt.took));
    let (what, cause) = match failure {
        Failure::Save(cause) => ("cannot read the kernel's rules", cause.to_string()),
        Failure::Restore(cause, _) => ("restore failed", cause.to_string()),
    };
    let next = match (scope, failure) {
        (_, Failure::Restore(cause, _)) if cause.committed_if_retriable().is_some() => {
            "nothing is lost; retrying later"
        }
        (Scope::Adoption | Scope::Partial, Failure::Restore(..)) => {
            "a full restore follows at once"
        }
        _ => "the kernel keeps its rules; trying again later",
    };
    // What may span lines comes last, behind the fields that lines are searched by.
    let excerpt = match failure {
        Failure::Restore(_, Some(excerpt)) => format!("\n{excerpt}"),
        _ => String::new(),
    };
    let cause = format!("{cause}{excerpt}");
    error!(%family, scope = scope.as_str(), took_ms, %cause, "{what}; {next}");
}

/// Consequence for a Service in quarantine.
const fn consequence(fallback: Fallback) -> &'static str {
    match fallback {
        Fallback::LastApplied => "its last applied rules stay, its changes are not applied",
        Fallback::NoEndpoints => "its clients are rejected as if it had no endpoints",
        Fallback::LeftOut => "it has no rules",
    }
}

/// Text of the event about a Service in quarantine.
pub(super) fn quarantine_note(family: IpFamily, node: &str, blamed: &Quarantined) -> String {
    let consequence = consequence(blamed.fallback);
    format!(
        "node {node}: {family} rules of the Service make iptables-restore fail; {consequence}: {}",
        blamed.error
    )
}

/// Logs the Services that were put into quarantine, with the consequence.
pub(super) fn isolation(family: IpFamily, isolation: &Isolation) {
    let (restores, failed) = (isolation.restores, isolation.failed);
    if isolation.is_environment {
        info!(%family, restores, failed, "restores fail whatever Services they are for");
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
             Services are not affected. Change or delete it; it is retried alone after growing \
             intervals"
        );
    }
    let unresolved = isolation.unresolved.len();
    info!(%family, restores, failed, unresolved, "isolated the Services that make restores fail");
}

/// Logs the retry of a Service in quarantine.
pub(super) fn retry(family: IpFamily, retry: &Retry) {
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
        error!(%family, "restore failed; retrying everything later");
    }
}

/// Logs the findings of a check of our rules; nothing, if nothing changed.
pub(super) fn checked(family: IpFamily, result: &CheckResult) {
    for (table, cause) in &result.newly_unreadable {
        let is_unprintable = matches!(cause, RunError::Unprintable { .. });
        let consequence = if is_unprintable {
            "cannot print all rules of this table because of a third-party rule; until it is \
             readable again, our jumps are asked for one by one"
        } else {
            "cannot check our rules in this table; until it is readable again, a flush goes unnoticed"
        };
        warn!(%family, %table, "{consequence}: {cause}");
    }
    for table in &result.readable_again {
        info!(%family, %table, "table is readable again");
    }
    if let Some((table, _)) = &result.gone {
        warn!(%family, %table, "our rules are gone or changed; restoring everything");
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
            "{which} a chain of ours; rewriting the chain, and not again within {wait:?}. Find what \
             adds them: rules belong into chains of their own"
        );
    }
}

/// Logs the differences between the rules in the kernel and the applied ones, if there are any.
pub(super) fn compared(family: IpFamily, compared: &Compared<'_>) {
    let trigger = compared.trigger.as_str();
    if let Some(cause) = compared.failure {
        debug!(%family, trigger, "cannot read our rules in the kernel: {cause}");
    }
    for ((table, kind), chains) in &compared.drift.counts {
        let kind = kind.as_str();
        debug!(%family, trigger, %table, kind, chains, "rules differ from the applied ones");
    }
    if let Some(reason) = compared.drift.declined {
        let reason = reason.as_str();
        warn!(%family, trigger, reason, "rules differ from the applied ones; restoring everything");
    }
    // A flushed table is logged with the check that found it.
    if compared.drift.is_none() || !compared.drift.has_names() {
        return;
    }
    let chains = compared.drift.names();
    let programs = &compared.drift.programs;
    let programs = programs.iter().map(String::as_str).collect::<Vec<_>>();
    let programs = programs.join(", ");
    if compared.wait.is_zero() {
        info!(%family, trigger, programs, chains, "rules changed by another program; repairing them");
    } else {
        let retry_after = compared.wait;
        warn!(
            %family, trigger, programs, chains,
            "rules changed again by another program; repairing them in {retry_after:?}. Find what \
             changes them: is a second proxy running on this node?"
        );
    }
}

/// Returns the text of an event about rules that another program changes again and again.
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
    let programs = drift.programs.iter().map(String::as_str);
    let programs = programs.collect::<Vec<_>>().join(", ");
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

/// Logs that rules which differed are repaired.
pub(super) fn repaired(family: IpFamily, after: Duration) {
    let after_ms = milliseconds(after);
    info!(%family, after_ms, "rules repaired");
}

/// Returns milliseconds, rounded to a tenth.
fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e4).round() / 10.0
}
