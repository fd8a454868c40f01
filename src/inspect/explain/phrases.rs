//! Words for clients, rules, results and reasons, the same ones in text, graphs and JSON.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};

use super::client::{Client, ClientKind};
use super::explanation::Explanation;
use super::node::AddressOrigin;
use super::path::{
    BlockReason, Branch, EndpointScope, MasqueradeReason, PacketPath, PathResult, SeenSource,
    exemption,
};
use crate::inspect::catalog::{FrontendConflict, FrontendKind, LoserRules, RulesetGap};
use crate::net::IpFamily;
use crate::rules::{Network, ReplyLoss, Rule, Share, Step, Table, Target};
use crate::ruleset::is_service_chain;

/// Note on an answer for which not everything was tried.
pub(super) const CUT_OFF: &str =
    "the rules have too many paths: not every combination of undecided rules was tried";

/// Renders `10.96.0.10:53/udp, cluster IP of kube-system/dns:dns`.
pub(super) fn title(explanation: &Explanation<'_>) -> String {
    let mut text = explanation.to.to_string();
    if explanation.destination_origin == AddressOrigin::Invented {
        text.push_str(" (assumed address of the node)");
    }
    for frontend in &explanation.to.frontends {
        // Writing to a String cannot fail.
        let _ = write!(text, ", {} of {}", frontend.kind, frontend.name.name);
    }
    let endpoint_of = explanation.to.endpoint_of.iter();
    let endpoint_of: Vec<_> = endpoint_of.map(|port| &*port.name).collect();
    match endpoint_of.as_slice() {
        [] if explanation.to.frontends.is_empty() && explanation.missing_tables.is_empty() => {
            text.push_str(", not a Service address");
            if explanation.unreadable_rules > 0 {
                text.push_str(" in the rules that can be read");
            }
        }
        [] if explanation.to.frontends.is_empty() => {
            text.push_str(", not a Service address in this dump");
        }
        [] => {}
        ports => {
            let _ = write!(text, ", endpoint of {}", ports.join(", "));
        }
    }
    text
}

/// Renders `a, b and c` or `a, b or c`.
pub(super) fn joined<T: ToString>(items: impl IntoIterator<Item = T>, word: &str) -> String {
    let texts: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    match texts.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} {word} {last}", all.join(", ")),
        _ => texts.concat(),
    }
}

/// Renders that an address of the node is assumed.
pub(super) fn assumed_node(ip: IpAddr) -> String {
    format!("the node's addresses are unknown: {ip} is assumed; set --node-ip")
}

/// Renders a client with its representative address.
pub(super) fn client(client: &Client) -> String {
    let ip = client.ip;
    match client.kind {
        ClientKind::Pod => format!("a pod (such as {ip})"),
        ClientKind::Node if client.origin == AddressOrigin::Invented => {
            format!("the node (assumed {ip})")
        }
        ClientKind::Node => format!("the node ({ip})"),
        ClientKind::Outside => format!("outside (such as {ip})"),
        ClientKind::AllowedSource => format!("an allowed source (such as {ip})"),
        ClientKind::Given => ip.to_string(),
    }
}

/// Renders clients of different kinds as one phrase.
pub(super) fn clients(clients: &[Client]) -> String {
    joined(clients.iter().map(client), "or")
}

/// Renders a hint at the client whose rules are shown, if other clients traverse other rules.
pub(super) fn rules_of(path: &PacketPath<'_>) -> Option<String> {
    let first = path.clients.first().filter(|_| path.has_other_rules)?;
    Some(format!(
        "rules for packets from {}",
        client_kind(first.kind)
    ))
}

pub(super) const fn client_kind(kind: ClientKind) -> &'static str {
    match kind {
        ClientKind::Pod => "a pod",
        ClientKind::Node => "the node",
        ClientKind::Outside => "outside",
        ClientKind::AllowedSource => "an allowed source",
        ClientKind::Given => "this client",
    }
}

/// Returns the name of a kind of clients in flags and JSON.
pub(super) const fn kind(kind: ClientKind) -> &'static str {
    match kind {
        ClientKind::Pod => "pod",
        ClientKind::Node => "node",
        ClientKind::Outside => "outside",
        ClientKind::AllowedSource => "admitted",
        ClientKind::Given => "source",
    }
}

/// Renders the receivers of the packets of a path, and the source address that they see. If that
/// depends on rules that cannot be evaluated, it is only what happens without them.
pub(super) fn summary(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> String {
    let text = assumed(explanation, path);
    let condition = match (path.other_backend, path.undecided.len()) {
        (Some(_), 0) => "by the rules that are shown",
        (_, 1) => "if it does not match",
        _ => "if none of them matches",
    };
    match unclear(path) {
        Some(unclear) => format!("{unclear}; {condition}: {text}"),
        None => text,
    }
}

/// Renders that a path depends on rules that cannot be evaluated, or on those of another backend.
pub(super) fn unclear(path: &PacketPath<'_>) -> Option<String> {
    let backend = path.other_backend.map(|backend| {
        format!("backend {backend} has rules for these packets as well, which traverse both")
    });
    let undecided = match path.undecided.len() {
        0 => None,
        1 => Some("depends on a rule that cannot be evaluated".to_owned()),
        _ => Some("depends on rules that cannot be evaluated".to_owned()),
    };
    let reasons: Vec<String> = backend.into_iter().chain(undecided).collect();
    (!reasons.is_empty()).then(|| format!("unclear: {}", reasons.join("; ")))
}

/// Returns the condition of the result of a branch; `None` if it is certain.
pub(super) const fn condition(path: &PacketPath<'_>, branch: &Branch<'_>) -> Option<&'static str> {
    match path.other_backend {
        _ if branch.is_unclear => Some("if no rule in `unsure` matches"),
        Some(_) => Some("by the rules of this backend alone"),
        None => None,
    }
}

fn assumed(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> String {
    let served: Vec<_> = path.branches.iter().filter_map(served).collect();
    let branches = path.branches.iter();
    let lost: Vec<_> = branches.filter(|one| self::served(one).is_none()).collect();
    let (Some((to, source)), count) = (served.first(), served.len()) else {
        return losses(explanation, path, &lost);
    };
    let scope = scope(path.scope);
    if path.branches.len() == 1 {
        return format!("{to} answers{scope} and sees {}", seen_source(*source));
    }
    let mut branches = path.branches.iter();
    let share = branches.next().map(|first| first.share);
    let is_even = branches.all(|other| Some(other.share) == share);
    let mut text = match (count, share) {
        (1, _) => "1 endpoint answers".to_owned(),
        (_, Some(share)) if is_even => format!("{count} endpoints answer, {share} each"),
        _ => format!("{count} endpoints answer"),
    };
    let verb = if count == 1 { "sees" } else { "see" };
    let seen = if served.iter().all(|(_, other)| other == source) {
        seen_source(*source)
    } else {
        "different addresses".to_owned()
    };
    // Writing to a String cannot fail.
    let _ = write!(text, "{scope}, and {verb} {seen}");
    if !lost.is_empty() {
        let _ = write!(text, "; {}", losses(explanation, path, &lost));
    }
    text
}

/// Renders the results of branches without an answer, each kind with its share unless it is all.
fn losses(explanation: &Explanation<'_>, path: &PacketPath<'_>, lost: &[&Branch<'_>]) -> String {
    let kind_of = |branch: &Branch<'_>| std::mem::discriminant(&branch.result);
    let mut kinds: Vec<Vec<&Branch<'_>>> = Vec::new();
    for branch in lost {
        let is_alike = |known: &Branch<'_>| kind_of(known) == kind_of(branch);
        let mut known = kinds.iter_mut();
        match known.find(|known| known.iter().any(|known| is_alike(known))) {
            Some(known) => known.push(branch),
            None => kinds.push(vec![branch]),
        }
    }
    let texts = kinds.iter().filter_map(|lost| {
        let text = match &lost.first()?.result {
            PathResult::Unanswered { .. } => unanswered(explanation, path, lost),
            PathResult::Passed { is_local, source } => {
                passed(explanation, path, *is_local, *source)
            }
            result => ResultWords::of(explanation, path, result).to_string(),
        };
        let shares = lost.iter().map(|branch| branch.share);
        Some(match shares.fold(Share::NONE, Share::plus) {
            Share::ALL => text,
            share => format!("{share}: {text}"),
        })
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// Returns the endpoint of a branch and the source address that it sees, if it has one.
pub(super) fn served(branch: &Branch<'_>) -> Option<(SocketAddr, SeenSource)> {
    match branch.result {
        PathResult::Served { to, source } => Some((to, source)),
        _ => None,
    }
}

/// Renders that packets are not redirected, and why.
fn passed(
    explanation: &Explanation<'_>,
    path: &PacketPath<'_>,
    is_local: bool,
    source: SeenSource,
) -> String {
    let receiver = if is_local {
        "delivered to this node, rejected unless a process listens on the port"
    } else {
        "routed normally"
    };
    let sees = match source {
        SeenSource::Client => String::new(),
        other => format!("; the receiver sees {}", seen_source(other)),
    };
    let mut frontends = explanation.to.frontends.iter();
    match dead_end(explanation, path) {
        Some(cause) => format!("{cause}: {receiver}{sees}"),
        None if !is_local && !sees.is_empty() => format!("not redirected{sees}"),
        None if !is_local && explanation.to.is_endpoint() => {
            format!("endpoint address, not redirected by Service rules: {receiver}")
        }
        None if !is_local => format!("not a Service address: {receiver}"),
        None if frontends.any(|frontend| frontend.kind == FrontendKind::HealthCheck) => {
            "accepted by this node: health check of the Service's local endpoints".to_owned()
        }
        None => format!("not redirected: {receiver}"),
    }
}

/// Result of the packets of a branch, as documents and graphs have it.
pub(super) struct ResultWords {
    pub(super) result: &'static str,
    pub(super) to: Option<SocketAddr>,
    pub(super) source: Option<SeenSource>,
    pub(super) reason: Option<String>,
}

impl ResultWords {
    pub(super) fn of(
        explanation: &Explanation<'_>,
        path: &PacketPath<'_>,
        result: &PathResult,
    ) -> Self {
        Self::for_clients(explanation, path, &path.clients, result)
    }

    /// Returns the words for some clients of the path; without any, none is named by its address.
    pub(super) fn for_clients(
        explanation: &Explanation<'_>,
        path: &PacketPath<'_>,
        clients: &[Client],
        result: &PathResult,
    ) -> Self {
        let why = |why| Some(block_reason(explanation, clients, why));
        let (result, to, source, reason) = match result {
            PathResult::Served { to, source } => ("served", Some(*to), Some(*source), None),
            PathResult::Passed { is_local, source } => {
                let result = if *is_local { "local" } else { "routed" };
                (result, None, Some(*source), dead_end(explanation, path))
            }
            PathResult::Unanswered {
                to,
                source,
                loss,
                reason,
            } => {
                let reason = reply(explanation, clients, *loss, reason);
                let reason = format!("its reply is {reason}");
                ("unanswered", Some(*to), Some(*source), Some(reason))
            }
            PathResult::Dropped(reason) => ("dropped", None, None, why(reason)),
            PathResult::Rejected(reason) => ("rejected", None, None, why(reason)),
            PathResult::Unclear(unclear) => ("unclear", None, None, Some(unclear.to_string())),
            PathResult::MissingTable(table) => ("unclear", None, None, Some(missing_table(*table))),
        };
        Self {
            result,
            to,
            source,
            reason,
        }
    }
}

impl fmt::Display for ResultWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "{}: {reason}", self.result),
            None => f.write_str(self.result),
        }
    }
}

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

fn missing_table(table: Table) -> String {
    let decision = match table {
        Table::Filter => "whether this is accepted, rejected or dropped",
        Table::Nat => "which endpoint receives this",
        Table::Mangle => "how this is marked",
    };
    format!("the {table} table is not in the dump, cannot determine {decision}")
}

/// Renders the loss of replies after "its reply is" or "their replies are".
fn reply(
    explanation: &Explanation<'_>,
    clients: &[Client],
    loss: ReplyLoss,
    reason: &BlockReason,
) -> String {
    let reason = block_reason(explanation, clients, reason);
    match loss {
        ReplyLoss::Dropped | ReplyLoss::Rejected => format!("{loss}: {reason}"),
        ReplyLoss::Untracked => format!("{loss}: exempted from connection tracking {reason}"),
    }
}

/// Renders that endpoints receive packets and the client no reply. `branches` are those without
/// an answer; those that differ from the first are only counted.
fn unanswered(
    explanation: &Explanation<'_>,
    path: &PacketPath<'_>,
    branches: &[&Branch<'_>],
) -> String {
    let all = branches.iter().filter_map(|branch| match &branch.result {
        PathResult::Unanswered {
            to,
            source,
            loss,
            reason,
        } => Some((to, *source, *loss, reason)),
        _ => None,
    });
    let all: Vec<_> = all.collect();
    let Some(&(to, source, loss, reason)) = all.first() else {
        return String::new();
    };
    let seen = if all.iter().all(|one| one.1 == source) {
        seen_source(source)
    } else {
        "different addresses".to_owned()
    };
    let is_alike = all.iter().all(|one| (one.2, one.3) == (loss, reason));
    let (scope, reply) = (
        scope(path.scope),
        reply(explanation, &path.clients, loss, reason),
    );
    match all.len() {
        1 => format!("{to} receives it{scope} and sees {seen}, but its reply is {reply}"),
        count => {
            let of_first = if is_alike { "" } else { "lost; the first is " };
            format!(
                "{count} endpoints receive it{scope} and see {seen}, but their replies are \
                 {of_first}{reply}"
            )
        }
    }
}

/// Renders the endpoints that the rules choose from, if these are not all.
const fn scope(scope: EndpointScope) -> &'static str {
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

fn block_reason(explanation: &Explanation<'_>, clients: &[Client], reason: &BlockReason) -> String {
    match reason {
        BlockReason::NoEndpoints => "no endpoints".to_owned(),
        BlockReason::NoLocalInternal => no_local("internal"),
        BlockReason::NoLocalExternal => no_local("external"),
        BlockReason::SourceNotAllowed => {
            let subject = match clients {
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

/// Returns a line for each address of a conntrack entry that is not an endpoint, and one with the
/// command that deletes these entries.
pub(super) fn stale_flows(explanation: &Explanation<'_>) -> Vec<String> {
    let to = &explanation.to;
    let family = match IpFamily::of(to.ip) {
        IpFamily::V4 => "",
        IpFamily::V6 => " -f ipv6",
    };
    let lines = explanation.stale_flows.iter().flat_map(|address| {
        [
            format!(
                "stale: conntrack sends UDP clients to {address}, which is not an endpoint in the \
                 rules, unless it is terminating"
            ),
            format!(
                "hint: `conntrack -D{family} -p udp --orig-dst {} --orig-port-dst {} --reply-src \
                 {}` deletes these entries",
                to.ip,
                to.port.get(),
                address.ip()
            ),
        ]
    });
    lines.collect()
}

/// Returns the address that a DNAT rule sets as the destination.
pub(super) fn dnat_address(rule: &Rule) -> Option<String> {
    match &rule.target {
        Some(target @ Target::Dnat { .. }) => {
            let text = target.to_string();
            text.rsplit_once(' ').map(|(_, to)| to.to_owned())
        }
        _ => None,
    }
}
