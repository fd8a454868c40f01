//! Outcomes of packets: whether they are answered, and what nodes are compared by.
//!
//! A comparison is without what differs between nodes that are configured alike. These are
//! addresses of the node, endpoints of policy Local, and the source address that an endpoint sees,
//! which is the client's if the endpoint is the node itself.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::client::ClientKind;
use super::destination::{PacketDestination, Query};
use super::explanation::Explanation;
use super::path::{BlockReason, Branch, EndpointScope, PacketPath, PathResult};
use super::phrases::{self, ResultWords};
use crate::inspect::catalog::FrontendKind;

/// Reports whether the packets of a path reach an endpoint, or the health check of the node, and
/// are answered; `None` if only some are, or the rules do not tell.
pub(super) fn is_reachable(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> Option<bool> {
    let is_unclear = phrases::unclear(path).is_some()
        || path.missing_table.is_some()
        || path.is_cut_off
        || !explanation.unread_tables.is_empty();
    if is_unclear {
        return None;
    }
    let mut results = path.branches.iter().map(|branch| match &branch.result {
        PathResult::Served { .. } => Some(true),
        PathResult::Unanswered { .. } | PathResult::Dropped(_) | PathResult::Rejected(_) => {
            Some(false)
        }
        PathResult::Passed { .. } if phrases::dead_end(explanation, path).is_some() => Some(false),
        PathResult::Passed { .. } => {
            let to = &explanation.to;
            let mut kinds = to.frontends.iter().map(|frontend| frontend.kind);
            let is_known = to.is_endpoint() || kinds.any(|kind| kind == FrontendKind::HealthCheck);
            is_known.then_some(true)
        }
        PathResult::Unclear(_) | PathResult::MissingTable(_) => None,
    });
    let first = results.next()??;
    results.all(|result| result == Some(first)).then_some(first)
}

/// Returns a line for each path whose packets are not as expected, reachable or unreachable, and
/// for pods that were not traced.
pub(crate) fn unexpected(explanations: &[Explanation<'_>], expected: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for explanation in explanations {
        let to = &explanation.to;
        for path in &explanation.paths {
            let word = match is_reachable(explanation, path) {
                Some(result) if result == expected => continue,
                Some(true) => "reachable",
                Some(false) => "unreachable",
                None => "unclear",
            };
            let clients = phrases::clients(&path.clients);
            lines.push(format!("{to} from {clients}: {word}"));
        }
        if explanation.lacks_pod_address {
            lines.push(format!("{to} from pods: not traced"));
        }
    }
    lines
}

/// Packets that nodes are compared by. Sorted by destination, and then as clients are shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TracedPackets {
    /// `10.96.0.10:80/tcp`, or `:30080/tcp` if every node has the destination.
    pub(crate) to: String,
    pub(crate) from: ClientKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientOutcome {
    pub(crate) summary: String,
    /// Endpoints that answer; none if they depend on the node.
    pub(crate) endpoints: BTreeSet<SocketAddr>,
}

pub(crate) fn client_kinds(kinds: &[ClientKind]) -> String {
    let words = kinds.iter().map(|kind| phrases::client_kind(*kind));
    phrases::joined(words, "or")
}

/// Returns the outcome for each destination of a query and each kind of clients.
pub(crate) fn outcomes(
    query: &Query,
    explanations: &[Explanation<'_>],
) -> Vec<(TracedPackets, ClientOutcome)> {
    let mut outcomes = Vec::new();
    for explanation in explanations {
        let mut add = |from, outcome| {
            let to = destination(query, &explanation.to);
            outcomes.push((TracedPackets { to, from }, outcome));
        };
        for path in &explanation.paths {
            let outcome = outcome(explanation, path);
            for client in &path.clients {
                add(client.kind, outcome.clone());
            }
        }
        if explanation.lacks_pod_address {
            let summary = "not traced, as no address of a pod is known".to_owned();
            let endpoints = BTreeSet::new();
            add(ClientKind::Pod, ClientOutcome { summary, endpoints });
        }
    }
    outcomes
}

/// Renders a destination. A port of all nodes has another address on each.
fn destination(query: &Query, to: &PacketDestination) -> String {
    let is_of_node = |kind| matches!(kind, FrontendKind::NodePort | FrontendKind::HealthCheck);
    let is_any = match query {
        Query::Address(address) => address.ip.is_none(),
        Query::Name(_) => to.frontends.iter().any(|one| is_of_node(one.kind)),
    };
    if is_any {
        format!(":{}/{}", to.port, to.protocol)
    } else {
        to.to_string()
    }
}

fn outcome(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> ClientOutcome {
    let served: BTreeSet<_> = path.branches.iter().filter_map(address).collect();
    let is_unclear = phrases::unclear(path).is_some();
    let is_local = path.scope == EndpointScope::Local;
    let is_answered = path.branches.iter().all(|one| address(one).is_some()) && !is_unclear;
    let is_by_design = is_answered && is_local || path.branches.iter().all(is_without_local);
    let mut words = Vec::new();
    if is_by_design {
        words.push(OF_NODE.to_owned());
    } else {
        words.extend(phrases::unclear(path));
        words.extend(answers(&served));
        words.extend(losses(explanation, path));
    }
    for gap in path.gaps.iter().filter(|gap| gap.concerns_marks()) {
        words.push(format!("broken: {gap} (nat): {}", gap.consequence()));
    }
    ClientOutcome {
        summary: words.join("; "),
        endpoints: if is_local { BTreeSet::new() } else { served },
    }
}

/// Outcome that is another one on each node, by design.
const OF_NODE: &str = "endpoints on the node answer, if there are any (policy Local)";

/// Reports whether packets are dropped because the policy is Local, and no endpoint is on the node.
fn is_without_local(branch: &Branch<'_>) -> bool {
    let (PathResult::Dropped(reason) | PathResult::Rejected(reason)) = &branch.result else {
        return false;
    };
    matches!(
        reason,
        BlockReason::NoLocalInternal | BlockReason::NoLocalExternal
    )
}

fn address(branch: &Branch<'_>) -> Option<SocketAddr> {
    phrases::served(branch).map(|(to, _)| to)
}

fn answers(served: &BTreeSet<SocketAddr>) -> Option<String> {
    let first = served.first()?;
    Some(match served.len() {
        1 => format!("{first} answers"),
        count => format!("{count} endpoints answer"),
    })
}

/// Renders each result of branches without an answer.
fn losses(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> BTreeSet<String> {
    let lost = path.branches.iter().filter(|one| address(one).is_none());
    lost.map(|branch| {
        let words = ResultWords::for_clients(explanation, path, &[], &branch.result);
        let result = match words.result {
            "local" => "delivered to the node",
            "routed" => "routed normally",
            other => other,
        };
        match words.reason {
            Some(reason) => format!("{result}: {reason}"),
            None => result.to_owned(),
        }
    })
    .collect()
}

#[cfg(test)]
#[path = "tests/outcome.rs"]
mod tests;
