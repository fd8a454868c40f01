//! Page `/`: the state of the node, what is wrong first; with a sparkline of the last syncs of each
//! family.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use maud::{Markup, html};

use super::document::{Audience, PageColumn, table};

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
    const COLUMNS: &[PageColumn] = &[
        ("Found", false),
        ("Program", false),
        ("Chains", true),
        ("First chains", false),
    ];
    let label = format!("Rules of {family} that other programs changed");
    let rows = html! {
        @for one in drift {
            tr {
                th scope="row" { (ago(one.at, now)) }
                td { @if one.program.is_empty() { "unknown" } @else { (one.program) } }
                td class="number" { (one.chains) }
                td { (one.names) }
            }
        }
    };
    html! {
        @if !drift.is_empty() {
            h4 { "Rules that other programs changed" }
            (table(&label, None, COLUMNS, &rows))
        }
    }
}

fn watches(status: &StatusDocument) -> Markup {
    let age = |seconds| duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let rows = html! {
        @for watch in &status.watches {
            tr { th scope="row" { (watch.kind) } td { (age(watch.age_seconds)) " ago" } }
        }
    };
    let columns = [("Kind", false), ("Up to date", false)];
    html! {
        div {
            @if status.watches.is_empty() {
                p { "No watch of an API server" }
            } @else {
                (table("Watches", Some("Watches of the API server"), &columns, &rows))
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

/// Width of a bar with its gap, in units of the picture.
const STEP: usize = 3;

/// Minimum number of bars that fit into the picture; fewer are at its right end.
const FEWEST: usize = 60;

/// Height of the longest bar, in units of the picture.
const HEIGHT: f64 = 56.0;

/// Height above the bars, for the marks of full syncs.
const TOP: f64 = 8.0;

/// Returns the picture of the last syncs of a family, the oldest on the left. Full syncs differ
/// from partial ones by a mark, and not by their color alone.
fn sparkline(family: &str, syncs: &[SyncRecord]) -> Markup {
    let longest = syncs.iter().map(|sync| sync.took_ms).fold(0.0, f64::max);
    let (mut partial, mut full, mut marks) = (String::new(), String::new(), String::new());
    let mut full_count = 0;
    let width = syncs.len().max(FEWEST) * STEP;
    for (position, sync) in syncs.iter().enumerate() {
        let x = (width + position * STEP).saturating_sub(syncs.len() * STEP);
        let height = (sync.took_ms / longest.max(f64::MIN_POSITIVE) * HEIGHT).max(1.0);
        let bars = if sync.scope == "partial" {
            &mut partial
        } else {
            full_count += 1;
            let top = TOP + HEIGHT - height;
            let _ = write!(marks, "M{x} {:.0}h3l-1.5 4z", top - 6.0);
            &mut full
        };
        // Writing into memory cannot fail.
        let _ = write!(bars, "M{x}.5 64v-{height:.0}");
    }
    let count = match syncs.len() {
        1 => "1 sync".to_owned(),
        count => format!("{count} syncs"),
    };
    let (title, text) = (format!("title-{family}"), format!("text-{family}"));
    html! {
        figure {
            svg viewBox=(format!("0 0 {width} 64")) preserveAspectRatio="none" role="img"
                aria-labelledby=(format!("{title} {text}")) {
                title id=(title) { "Durations of the last " (count) " of " (family) }
                desc id=(text) {
                    "The longest took " (milliseconds(longest)) ", half of them at most "
                    (milliseconds(median(syncs))) "; " (full_count) " were full."
                }
                path class="partial" stroke-width="2" d=(partial) {}
                path class="full" stroke-width="2" d=(full) {}
                path class="marks" d=(marks) {}
            }
            figcaption class="muted" {
                "Last " (count) ": longest " (milliseconds(longest)) ", median "
                (milliseconds(median(syncs))) ", " (full_count) " full (marked with a triangle)"
            }
        }
    }
}

fn median(syncs: &[SyncRecord]) -> f64 {
    let mut durations: Vec<f64> = syncs.iter().map(|sync| sync.took_ms).collect();
    durations.sort_by(f64::total_cmp);
    let middle = durations.len().saturating_sub(1) / 2;
    durations.get(middle).copied().unwrap_or_default()
}
