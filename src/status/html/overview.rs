//! Page `/`: the state of the node, what is wrong first.

use std::time::Duration;

use jiff::Timestamp;
use maud::{Markup, html};

use super::document::Audience;
use super::sparkline::sparkline;

use crate::status::document::{
    ConflictRecord, DriftRecord, FailureRecord, FamilyStatus, Problem, QuarantinedService,
    StatusDocument, SyncRecord,
};
use crate::status::quantities::{age, bytes, duration, milliseconds};

/// Services in quarantine that are shown, of each family: one of them has an error of some hundred
/// bytes.
const MOST_QUARANTINED: usize = 20;

pub(in crate::status) fn overview(status: &StatusDocument, audience: Audience) -> Markup {
    let now = status.observed_at;
    let uptime = Duration::try_from(now.duration_since(status.started_at)).unwrap_or_default();
    html! {
        h1 { "Node " (status.node) }
        p class="muted" {
            "deltaproxy " (status.version) ", up for " (duration(uptime)) ", state of "
            time datetime=(now) { (now.strftime("%Y-%m-%d %H:%M:%S")) " UTC" }
        }
        section aria-labelledby="problems" {
            h2 id="problems" { "Problems" }
            @if status.is_well() {
                p class="good" { "\u{2713} No problem is known" }
            } @else {
                ul class="problems" {
                    @for problem in &status.problems { (problem_item(problem)) }
                }
            }
        }
        section aria-labelledby="families" {
            h2 id="families" { "IP families" }
            div class="columns" {
                @for family in &status.families { (family_article(family, audience, now)) }
            }
        }
        section aria-labelledby="inputs" {
            h2 id="inputs" { "Inputs and kernel" }
            div class="columns" {
                (watches(status))
                (node(status))
            }
        }
    }
}

fn problem_item(problem: &Problem) -> Markup {
    html! {
        li class=[problem.is_failure.then_some("failure")] {
            @if problem.is_failure {
                span class="bad" { "Failure: " }
            } @else {
                span class="warn" { "Finding: " }
            }
            (problem.summary)
            @if !problem.hint.is_empty() { p class="muted" { (problem.hint) } }
        }
    }
}

fn family_article(family: &FamilyStatus, audience: Audience, now: Timestamp) -> Markup {
    let name = &family.family;
    html! {
        article aria-labelledby=(name) {
            h3 id=(name) { (name) }
            @if family.is_disabled {
                p { "Not used on this node" }
            } @else {
                (facts(family, now))
                @if !family.recent_syncs.is_empty() { (sparkline(name, &family.recent_syncs)) }
                @if let Some(failure) = &family.last_failure {
                    (last_failure(failure, audience, now))
                }
                (quarantined(&family.quarantined, audience))
                (conflicts(&family.conflicts, family.conflict_count))
                (drift(name, &family.drift, now))
            }
        }
    }
}

fn facts(family: &FamilyStatus, now: Timestamp) -> Markup {
    html! {
        dl {
            dt { "Backend" }
            dd {
                @if family.backend.is_empty() { "not found yet" }
                @else { (family.backend) ", iptables " (family.iptables_version) }
            }
            dt { "Rules" } dd { (family.rules) }
            dt { "Endpoints" } dd { (family.endpoints) }
            dt { "Applied syncs" } dd { (family.generation) }
            dt { "Pending Services" }
            dd {
                (family.pending_services)
                @if let Some(since) = family.waiting_since { ", requested " (ago(since, now)) }
            }
            dt { "Last full sync" } dd { (sync(family.last_full.as_ref(), now)) }
            dt { "Last partial sync" } dd { (sync(family.last_partial.as_ref(), now)) }
            dt { "Failed syncs in a row" }
            dd class=[(family.failed_syncs > 0).then_some("bad")] { (family.failed_syncs) }
            dt { "Last verification" }
            dd {
                @match &family.verification {
                    Some(found) if found.is_clean => { span class="good" { "clean" } ", " (ago(found.at, now)) }
                    Some(found) => { span class="warn" { "found changed rules" } ", " (ago(found.at, now)) }
                    None => "none yet",
                }
            }
            @for limit in &family.over_limits {
                dt { "Over limit " (limit.limit) }
                dd class="warn" { (limit.services) " Services" }
            }
            @if !family.unreadable_tables.is_empty() {
                dt { "Unreadable tables" }
                dd class="warn" { (family.unreadable_tables.join(", ")) }
            }
        }
    }
}

fn sync(sync: Option<&SyncRecord>, now: Timestamp) -> Markup {
    html! {
        @match sync {
            None => "none yet",
            Some(sync) => {
                (ago(sync.at, now)) ": " (milliseconds(sync.took_ms)) ", " (bytes(sync.bytes))
                ", " (sync.chains) " chains"
                @if !sync.reason.is_empty() { ", reason: " (sync.reason) }
                @if sync.lock_wait_ms >= 1.0 { ", waited " (milliseconds(sync.lock_wait_ms)) " for the lock" }
            }
        }
    }
}

fn last_failure(failure: &FailureRecord, audience: Audience, now: Timestamp) -> Markup {
    html! {
        h4 { "Last failed restore" }
        p { (ago(failure.at, now)) ", " (failure.scope) ": " (failure.consequence) }
        @if audience == Audience::Node {
            // One line of a log, in which these join the lines of an error.
            pre class="wrap" { (failure.error.replace("; ", "\n")) }
        }
    }
}

fn quarantined(services: &[QuarantinedService], audience: Audience) -> Markup {
    html! {
        @if !services.is_empty() {
            h4 { "Services in quarantine: " (services.len()) }
            @if audience == Audience::Node {
                ul {
                    @for one in services.iter().take(MOST_QUARANTINED) {
                        li { (one.service) ": " (one.consequence) pre class="wrap" { (one.error) } }
                    }
                }
                @if services.len() > MOST_QUARANTINED {
                    p { (services.len() - MOST_QUARANTINED) " more are not shown" }
                }
            }
        }
    }
}

fn conflicts(conflicts: &[ConflictRecord], count: u64) -> Markup {
    html! {
        @if count > 0 {
            h4 { "Conflicts over addresses: " (count) }
            ul { @for conflict in conflicts { li { (conflict.to_string()) } } }
        }
    }
}

fn drift(family: &str, drift: &[DriftRecord], now: Timestamp) -> Markup {
    html! {
        @if !drift.is_empty() {
            h4 { "Rules that other programs changed" }
            div class="scroll" tabindex="0" role="region" aria-label=(format!("Rules of {family} that other programs changed")) {
                table {
                    thead {
                        tr {
                            th scope="col" { "Found" }
                            th scope="col" { "Program" }
                            th scope="col" class="number" { "Chains" }
                            th scope="col" { "First chains" }
                        }
                    }
                    tbody {
                        @for one in drift {
                            tr {
                                th scope="row" { (ago(one.at, now)) }
                                td { @if one.program.is_empty() { "unknown" } @else { (one.program) } }
                                td class="number" { (one.chains) }
                                td { (one.names) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn watches(status: &StatusDocument) -> Markup {
    html! {
        div {
            @if status.watches.is_empty() {
                p { "No watch of an API server" }
            } @else {
                table {
                    caption { "Watches of the API server" }
                    thead {
                        tr {
                            th scope="col" { "Kind" }
                            th scope="col" { "Up to date" }
                        }
                    }
                    tbody {
                        @for watch in &status.watches {
                            tr {
                                th scope="row" { (watch.kind) }
                                td { (duration(Duration::try_from_secs_f64(watch.age_seconds).unwrap_or_default())) " ago" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn node(status: &StatusDocument) -> Markup {
    html! {
        div {
            dl {
                dt { "Connection tracking" }
                dd {
                    @match &status.conntrack {
                        Some(conntrack) => { (conntrack.entries) " of " (conntrack.max) " entries" }
                        None => "not known",
                    }
                }
                dt { "Configuration" }
                dd {
                    @if status.configuration_invalid {
                        span class="warn" { "the file cannot be used" }
                    } @else if status.configuration_changed {
                        span class="warn" { "the file has changed since the start" }
                    } @else {
                        "unchanged since the start"
                    }
                }
                @if !status.unknown_settings.is_empty() {
                    dt { "Unknown settings" }
                    dd { (status.unknown_settings.join(", ")) }
                }
            }
        }
    }
}

/// Returns a time as its distance from `now`.
fn ago(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) { (age(at, now)) " ago" } }
}
