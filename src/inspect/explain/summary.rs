//! Renders clients, results and reasons as phrases, the same ones in text, graphs and JSON.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::Explanation;
use super::client::{Client, ClientKind};
use super::node_address::AddressOrigin;
use super::path::{Branch, EndpointScope, PacketPath, PathResult, SeenSource, SharedRules};
use super::reason::{BlockReason, MasqueradeReason};
use crate::inspect::catalog::{FrontendKind, RulesetGap};
use crate::rules::{Network, Share, Table, Target};
use crate::ruleset::is_service_chain;

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

/// Renders addresses in a list.
pub(super) fn listed<'i>(ips: impl IntoIterator<Item = &'i IpAddr>) -> String {
    let ips: Vec<_> = ips.into_iter().map(ToString::to_string).collect();
    match ips.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => ips.concat(),
    }
}

/// Maximum addresses that a doubt names.
const MAX_DOUBTS: usize = 3;

/// Renders the addresses that would change the result if they were the node's.
pub(super) fn node_doubt(explanation: &Explanation<'_>) -> Option<String> {
    let ips = &explanation.possible_node_ips;
    let shown: Vec<_> = ips.iter().take(MAX_DOUBTS).map(IpAddr::to_string).collect();
    let more = match ips.len().checked_sub(MAX_DOUBTS) {
        None | Some(0) => String::new(),
        Some(more) => format!(" or {more} more"),
    };
    (!shown.is_empty()).then(|| {
        format!(
            "the result differs if this node has the address {}{more}; set --node-ip",
            shown.join(" or ")
        )
    })
}

/// Renders clients of different kinds as one phrase, each with its representative address.
pub(super) fn clients(clients: &[Client]) -> String {
    let each = clients.iter().map(|client| {
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
    });
    let each: Vec<_> = each.collect();
    match each.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => each.concat(),
    }
}

/// Renders a hint at the client whose rules are shown, if those of other clients of the path
/// differ by more than `most`.
pub(super) fn rules_of(path: &PacketPath<'_>, most: SharedRules) -> Option<String> {
    let first = path.clients.first();
    let first = first.filter(|_| path.shared_rules > most)?;
    let client = match first.kind {
        ClientKind::Pod => "a pod",
        ClientKind::Node => "the node",
        ClientKind::Outside => "outside",
        ClientKind::AllowedSource => "an allowed source",
        ClientKind::Given => "this client",
    };
    Some(format!("rules for packets from {client}"))
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
    let condition = match path.undecided.len() {
        1 => "if it does not match",
        _ => "if none of them matches",
    };
    match unclear(path) {
        Some(unclear) => format!("{unclear}; {condition}: {text}"),
        None => text,
    }
}

/// Renders that a path depends on rules that cannot be evaluated.
pub(super) fn unclear(path: &PacketPath<'_>) -> Option<String> {
    let rules = match path.undecided.len() {
        0 => return None,
        1 => "a rule",
        _ => "rules",
    };
    Some(format!(
        "unclear: depends on {rules} that cannot be evaluated"
    ))
}

fn assumed(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> String {
    let [branch] = path.branches.as_slice() else {
        return many(explanation, path);
    };
    match &branch.result {
        PathResult::Served { to, source } => {
            let source = seen_source(*source);
            format!("{to} answers{} and sees {source}", scope(path.scope))
        }
        result => one(explanation, path, result),
    }
}

fn many(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> String {
    let served: Vec<_> = path.branches.iter().filter_map(served).collect();
    let lost: Vec<_> = path
        .branches
        .iter()
        .filter(|branch| self::served(branch).is_none())
        .collect();
    let count = served.len();
    let mut text = match (count, path.branches.first()) {
        (0, Some(branch)) => return one(explanation, path, &branch.result),
        (1, _) => "1 endpoint answers".to_owned(),
        (_, Some(branch))
            if path
                .branches
                .iter()
                .all(|other| other.share == branch.share) =>
        {
            format!("{count} endpoints answer, {} each", branch.share)
        }
        _ => format!("{count} endpoints answer"),
    };
    text.push_str(scope(path.scope));
    match served.first() {
        Some((_, source)) if served.iter().all(|(_, other)| other == source) => {
            let verb = if count == 1 { "sees" } else { "see" };
            let _ = write!(text, ", and {verb} {}", seen_source(*source));
        }
        _ => text.push_str(", and see different addresses"),
    }
    if let Some(first) = lost.first() {
        let share = lost
            .iter()
            .fold(Share::NONE, |sum, branch| sum.plus(branch.share));
        let _ = write!(text, "; {share}: {}", one(explanation, path, &first.result));
    }
    text
}

/// Returns the endpoint of a branch and the source address that it sees, if it has one.
pub(super) fn served(branch: &Branch<'_>) -> Option<(SocketAddr, SeenSource)> {
    match branch.result {
        PathResult::Served { to, source } => Some((to, source)),
        _ => None,
    }
}

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

/// Renders a result of all packets of a path that is not delivery to an endpoint.
fn one(explanation: &Explanation<'_>, path: &PacketPath<'_>, result: &PathResult) -> String {
    if let PathResult::Passed { is_local, source } = result
        && let Some(cause) = dead_end(explanation, path)
    {
        let receiver = if *is_local {
            "delivered to this node, rejected unless a process listens on the port"
        } else {
            "routed normally"
        };
        return match source {
            SeenSource::Client => format!("{cause}: {receiver}"),
            other => format!(
                "{cause}: {receiver}; the receiver sees {}",
                seen_source(*other)
            ),
        };
    }
    match result {
        PathResult::Passed { is_local: true, .. } if is_health_check(explanation) => {
            "accepted by this node: health check of the Service's local endpoints".to_owned()
        }
        PathResult::Passed { is_local: true, .. } => {
            "not redirected: delivered to this node, rejected unless a process listens on the port"
                .to_owned()
        }
        PathResult::Passed {
            source: SeenSource::Client,
            ..
        } if explanation.to.is_endpoint() => {
            "endpoint address, not redirected by Service rules: routed normally".to_owned()
        }
        PathResult::Passed {
            source: SeenSource::Client,
            ..
        } => "not a Service address: routed normally".to_owned(),
        PathResult::Passed { source, .. } => {
            format!("not redirected; the receiver sees {}", seen_source(*source))
        }
        PathResult::Dropped(why) => format!("dropped: {}", block_reason(explanation, path, why)),
        PathResult::Rejected(why) => format!("rejected: {}", block_reason(explanation, path, why)),
        PathResult::Unclear(why) => format!("unclear: {why}"),
        PathResult::MissingTable(table) => format!("unclear: {}", missing_table(*table)),
        PathResult::Served { to, .. } => to.to_string(),
    }
}

/// Returns the reason why packets to a Service are not redirected.
fn dead_end(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> Option<String> {
    if let Some(chain) = last_service_chain(path) {
        return Some(format!("jumps to `{chain}`, where no rule applies"));
    }
    let mut jumps = path.gaps.iter();
    if let Some(gap) = jumps.find(|gap| matches!(gap, RulesetGap::Jump(_))) {
        return Some(format!("{gap} (nat)"));
    }
    let mut frontends = explanation.to.frontends.iter();
    let is_redirected = |kind| kind != FrontendKind::HealthCheck;
    frontends
        .any(|frontend| is_redirected(frontend.kind))
        .then(|| "no rule of the Service applies".to_owned())
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

fn is_health_check(explanation: &Explanation<'_>) -> bool {
    let mut frontends = explanation.to.frontends.iter();
    frontends.any(|frontend| frontend.kind == FrontendKind::HealthCheck)
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
