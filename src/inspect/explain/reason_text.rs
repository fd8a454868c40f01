//! Renders reasons: why packets are masqueraded or not served, and why replies are lost.

use super::explanation::Explanation;
use super::path::{Branch, EndpointScope, PacketPath, PathResult, SeenSource};
use super::reason::{BlockReason, MasqueradeReason, exemption};
use crate::inspect::catalog::{FrontendConflict, FrontendKind, LoserRules, RulesetGap};
use crate::rules::{Network, ReplyLoss, Step, Table, Target};
use crate::ruleset::is_service_chain;

/// Note on an answer for which not everything was tried.
pub(super) const CUT_OFF: &str =
    "the rules have too many paths: not every combination of undecided rules was tried";

/// Returns the reason why packets to a Service are not redirected.
pub(super) fn dead_end(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> Option<String> {
    if let Some(chain) = last_service_chain(path) {
        return Some(ends_in(chain));
    }
    let mut jumps = path.gaps.iter();
    if let Some(gap) = jumps.find(|gap| matches!(gap, RulesetGap::Jump(_))) {
        return Some(format!("{gap} (nat)"));
    }
    let mut frontends = explanation.to.frontends.iter();
    let is_redirected = |kind| kind != FrontendKind::HealthCheck;
    if !frontends.any(|frontend| is_redirected(frontend.kind)) {
        return None;
    }
    let all_steps = path.branches.iter().flat_map(|branch| path.steps(branch));
    Some(match (exemption(all_steps), explanation.unreadable_rules) {
        (Some(step), _) => untracked(step),
        (None, 0) => "no rule of the Service applies".to_owned(),
        (None, _) => "no rule of the Service that can be read applies".to_owned(),
    })
}

fn ends_in(chain: &str) -> String {
    format!("jumps to `{chain}`, where no rule applies")
}

/// Renders that the rules of Services do not see packets without a connection.
fn untracked(step: &Step<'_>) -> String {
    format!(
        "not translated, because a third-party rule in {} {} exempts it from connection tracking: \
         {}",
        step.table, step.chain, step.rule
    )
}

/// Returns the last chain of a Service that packets jump to. A result without translation means
/// that rules were removed from it: every such chain that a proxy writes decides.
fn last_service_chain<'a>(path: &PacketPath<'a>) -> Option<&'a str> {
    path.before
        .iter()
        .rev()
        .find_map(|step| match &step.rule.target {
            Some(Target::Jump(chain)) if is_service_chain(chain) => Some(&**chain),
            _ => None,
        })
}

/// Renders the decision that a missing table has.
pub(super) fn missing_table(table: Table) -> String {
    let decision = match table {
        Table::Filter => "whether this is accepted, rejected or dropped",
        Table::Nat => "which endpoint receives this",
        Table::Mangle => "how this is marked",
    };
    format!("the {table} table is not in the dump, cannot determine {decision}")
}

/// Renders the loss of replies after "its reply is" or "their replies are".
pub(super) fn reply(
    explanation: &Explanation<'_>,
    path: &PacketPath<'_>,
    loss: ReplyLoss,
    reason: &BlockReason,
) -> String {
    let reason = block_reason(explanation, path, reason);
    match loss {
        ReplyLoss::Dropped | ReplyLoss::Rejected => format!("{loss}: {reason}"),
        ReplyLoss::Untracked => format!("{loss}: exempted from connection tracking {reason}"),
    }
}

/// Renders that endpoints receive packets and the client no reply. `branches` are those without
/// an answer; those that differ from the first are only counted.
pub(super) fn unanswered(
    explanation: &Explanation<'_>,
    path: &PacketPath<'_>,
    branches: &[&Branch<'_>],
) -> String {
    let of = |branch: &Branch<'_>| match &branch.result {
        PathResult::Unanswered {
            to,
            source,
            loss,
            reason,
        } => Some((*to, *source, *loss, reason.clone())),
        _ => None,
    };
    let all: Vec<_> = branches.iter().filter_map(|branch| of(branch)).collect();
    let Some((to, source, loss, reason)) = all.first() else {
        return String::new();
    };
    let reason_text = reply(explanation, path, *loss, reason);
    let scope = scope(path.scope);
    let common: Option<SeenSource> = all.iter().all(|one| one.1 == *source).then_some(*source);
    let is_alike = |one: &(_, _, ReplyLoss, BlockReason)| (one.2, &one.3) == (*loss, reason);
    let sees = |verb: &str| match common {
        Some(source) => format!("{verb} {}", seen_source(source)),
        None => format!("{verb} different addresses"),
    };
    match all.len() {
        1 => format!(
            "{to} receives it{scope} and {}, but its reply is {reason_text}",
            sees("sees")
        ),
        count if all.iter().all(is_alike) => format!(
            "{count} endpoints receive it{scope} and {}, but their replies are {reason_text}",
            sees("see")
        ),
        count => format!(
            "{count} endpoints receive it{scope} and {}, but their replies are lost; the first is \
             {reason_text}",
            sees("see")
        ),
    }
}

/// Renders the endpoints that the rules choose from, if these are not all.
pub(super) const fn scope(scope: EndpointScope) -> &'static str {
    match scope {
        EndpointScope::All => "",
        EndpointScope::Local => " (only those on this node: policy Local)",
        EndpointScope::AllDespiteLocal => {
            " (externalTrafficPolicy Local does not apply to this client)"
        }
    }
}

/// Renders the source address that a receiver sees.
pub(super) fn seen_source(source: SeenSource) -> String {
    match source {
        SeenSource::Client => "the client's own address".to_owned(),
        SeenSource::Node(why) => format!("the node's address: {}", masquerade(why)),
        SeenSource::Other(Some(ip)) => format!("{ip}: set by a third-party rule"),
        SeenSource::Other(None) => "another address: set by a third-party rule".to_owned(),
    }
}

/// Renders the reason why packets are masqueraded.
pub(super) const fn masquerade(reason: MasqueradeReason) -> &'static str {
    match reason {
        MasqueradeReason::NotPod => "the client is not a pod",
        MasqueradeReason::All => "all traffic to cluster IPs is masqueraded",
        MasqueradeReason::External => "externalTrafficPolicy is Cluster",
        MasqueradeReason::FromNode => "the client is this node",
        MasqueradeReason::Hairpin => "the client is the endpoint itself",
        MasqueradeReason::ThirdParty => "masqueraded by a third-party rule",
    }
}

/// Renders the reason why packets are dropped or rejected.
pub(super) fn block_reason(
    explanation: &Explanation<'_>,
    path: &PacketPath<'_>,
    reason: &BlockReason,
) -> String {
    match reason {
        BlockReason::NoEndpoints => "no endpoints".to_owned(),
        BlockReason::NoLocalInternal => no_local("internal"),
        BlockReason::NoLocalExternal => no_local("external"),
        BlockReason::SourceNotAllowed => {
            let subject = match path.clients.as_slice() {
                [one] => format!("{} is", one.ip),
                _ => "these clients are".to_owned(),
            };
            let ranges = explanation.source_ranges.iter().map(Network::to_string);
            let ranges: Vec<_> = ranges.collect();
            let ranges = match ranges.as_slice() {
                [] => String::new(),
                _ => format!(" ({})", ranges.join(", ")),
            };
            format!("{subject} not in loadBalancerSourceRanges{ranges}")
        }
        BlockReason::DeadEnd(chain) => ends_in(chain),
        BlockReason::Loopback => "127.0.0.0/8 is reachable only from this node".to_owned(),
        BlockReason::Martian => {
            "the kernel drops packets from other hosts to a loopback address".to_owned()
        }
        BlockReason::Policy(table, chain) => {
            format!("no rule accepts it, and the policy of {table} {chain} is DROP")
        }
        BlockReason::Rule { table, chain, rule } => {
            format!("by a third-party rule in {table} {chain}: {rule}")
        }
    }
}

fn no_local(side: &str) -> String {
    format!("{side}TrafficPolicy is Local and no endpoint is on this node")
}

/// Maximum conflicts that are shown of a destination.
const MAX_CONFLICTS: usize = 4;

/// Returns a line for each of the first [`MAX_CONFLICTS`] conflicts, and one for the others.
pub(super) fn conflicts(conflicts: &[FrontendConflict]) -> Vec<String> {
    let shown = conflicts.iter().take(MAX_CONFLICTS).map(|conflict| {
        let FrontendConflict {
            loser, kind, owner, ..
        } = conflict;
        let rules = match conflict.rules {
            LoserRules::Absent => format!("declares it as {kind} and has no rules for it"),
            LoserRules::Shadowed => format!("has rules for it as {kind} that no packet reaches"),
        };
        let loser = &loser.name;
        format!("conflict: `{loser}` {rules}: Service `{owner}` comes first")
    });
    let more = conflicts.len().saturating_sub(MAX_CONFLICTS);
    let more = (more > 0).then(|| format!("conflict: {more} more service ports declare it"));
    shown.chain(more).collect()
}
