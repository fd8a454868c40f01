//! Traces the packets of one client, and builds their path from the outcomes of the tracer.
//!
//! Splits the rules into those that match all packets and those of one branch, and derives the
//! result of each branch.

use std::net::{IpAddr, SocketAddr};

use super::client::{Client, ClientKind};
use super::destination::PacketDestination;
use super::node::NodeRules;
use super::path::{
    Branch, EndpointScope, PacketPath, PathResult, SeenSource, SharedRules, add_new, is_same,
};
use super::reason::{BlockReason, MasqueradeReason};
use crate::rules::{
    BridgePort, Packet, Step, Table, Target, TraceOutcome, Verdict, trace as trace_packet,
};

/// Traces the packets of one client.
pub(super) fn trace<'a>(
    node: &NodeRules<'a>,
    to: &PacketDestination,
    client: Client,
) -> PacketPath<'a> {
    let source = client.ip;
    let outcomes = outcomes(node, to, source, client.in_interface.as_deref());
    let has_hairpin = client.kind == ClientKind::Pod && has_hairpin(node, to, &outcomes);
    let is_branched = outcomes.len() > 1;
    let shortest = outcomes.iter().map(|one| one.steps.len()).min();
    let shortest = shortest.unwrap_or_default();
    let before = if is_branched {
        common(&outcomes, shortest, <[Step<'a>]>::iter)
    } else {
        shortest
    };
    let most = shortest - before;
    let after = if is_branched {
        common(&outcomes, most, |steps| steps.iter().rev())
    } else {
        0
    };
    let first = outcomes.first().map(|one| one.steps.as_slice());
    let steps = first.unwrap_or_default();
    let tail = steps.len() - after;
    let mut undecided = Vec::new();
    for outcome in &outcomes {
        add_new(&mut undecided, &outcome.undecided);
    }
    let steps_before: Vec<Step<'a>> = steps.iter().take(before).copied().collect();
    let steps_after: Vec<Step<'a>> = steps.iter().skip(tail).copied().collect();
    let scope = scope(&outcomes);
    let branches: Vec<Branch<'a>> = outcomes
        .into_iter()
        .map(|outcome| {
            let own = outcome.steps.len() - before - after;
            let result = result(node, to, source, &outcome);
            Branch {
                share: outcome.share,
                result: if_tables_are_known(node, to, result),
                is_unclear: !outcome.undecided.is_empty(),
                steps: outcome.steps.into_iter().skip(before).take(own).collect(),
            }
        })
        .collect();
    let mut results = branches.iter().map(|branch| &branch.result);
    PacketPath {
        clients: vec![client],
        shared_rules: SharedRules::All,
        before: steps_before,
        after: steps_after,
        scope,
        has_hairpin,
        undecided,
        missing_table: results.find_map(|result| table_that_may_block(node, result)),
        branches,
    }
}

fn outcomes<'a>(
    node: &NodeRules<'a>,
    to: &PacketDestination,
    source: IpAddr,
    in_interface: Option<&str>,
) -> Vec<TraceOutcome<'a>> {
    let packet = Packet {
        source,
        destination: to.ip,
        protocol: to.protocol,
        port: to.port,
        in_interface: in_interface.map(Box::from),
        // Some networks attach pods to bridges, and other hosts are rarely behind one.
        bridge_port: if node.detector.has(source) || node.index.has_endpoint(source) {
            BridgePort::Unknown
        } else {
            BridgePort::None
        },
    };
    trace_packet(node.rules, &packet, &node.locality)
}

/// Returns the number of steps that all outcomes have in common, in the order of an iterator.
fn common<'o, 'a: 'o, I: Iterator<Item = &'o Step<'a>>>(
    outcomes: &'o [TraceOutcome<'a>],
    most: usize,
    steps: impl Fn(&'o [Step<'a>]) -> I,
) -> usize {
    let Some((first, others)) = outcomes.split_first() else {
        return 0;
    };
    let equal = |other: &'o TraceOutcome<'a>| {
        let pairs = steps(&first.steps).zip(steps(&other.steps)).take(most);
        pairs
            .take_while(|(left, right)| is_same(left, right))
            .count()
    };
    others.iter().map(equal).min().unwrap_or_default()
}

fn result(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    source: IpAddr,
    outcome: &TraceOutcome<'_>,
) -> PathResult {
    let seen = |masqueraded: bool| {
        let targets = outcome
            .steps
            .iter()
            .filter_map(|step| step.rule.target.as_ref());
        let is_snat = |target: &&Target| matches!(target, Target::Other(extension) if &*extension.name == "SNAT");
        if !masqueraded {
            SeenSource::Client
        } else if let Some(target) = targets.rev().find(is_snat) {
            SeenSource::Other(target.new_source())
        } else {
            SeenSource::Node(MasqueradeReason::of(&outcome.steps))
        }
    };
    match &outcome.verdict {
        Verdict::Delivered {
            to,
            port,
            masqueraded,
        } => PathResult::Served {
            to: SocketAddr::new(*to, *port),
            source: seen(*masqueraded),
        },
        Verdict::Passed { .. } if to.ip.is_loopback() && !node.locality.is_local(source) => {
            PathResult::Dropped(BlockReason::Martian)
        }
        Verdict::Passed { masqueraded } => PathResult::Passed {
            is_local: node.locality.is_local(to.ip),
            source: seen(*masqueraded),
        },
        Verdict::Dropped => PathResult::Dropped(BlockReason::of(outcome)),
        Verdict::Rejected => PathResult::Rejected(BlockReason::of(outcome)),
        Verdict::Unclear(why) => PathResult::Unclear(why.clone()),
    }
}

/// Returns the result, unless a table that is not in the input decides it.
fn if_tables_are_known(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    result: PathResult,
) -> PathResult {
    match result {
        // For these, no proxy has a rule in the nat table.
        PathResult::Rejected(BlockReason::NoEndpoints)
        | PathResult::Dropped(BlockReason::NoLocalInternal | BlockReason::Martian) => result,
        _ if node.missing_tables.contains(&Table::Nat) => PathResult::MissingTable(Table::Nat),
        // No rule of a Service rejects packets addressed to an endpoint directly.
        PathResult::Passed { .. }
            if node.missing_tables.contains(&Table::Filter) && !to.is_endpoint() =>
        {
            PathResult::MissingTable(Table::Filter)
        }
        _ => result,
    }
}

/// Returns the filter table if it is not in the input, and a third-party rule there may block
/// packets that rules of Services let pass.
fn table_that_may_block(node: &NodeRules<'_>, result: &PathResult) -> Option<Table> {
    let is_delivered = matches!(
        result,
        PathResult::Served { .. } | PathResult::Passed { .. }
    );
    let table = Table::Filter;
    (is_delivered && node.missing_tables.contains(&table)).then_some(table)
}

fn scope(outcomes: &[TraceOutcome<'_>]) -> EndpointScope {
    let leads = |step: &Step<'_>, prefix: &str| {
        let chain = step.rule.target_chain();
        chain.is_some_and(|chain| chain.starts_with(prefix))
    };
    let all = || outcomes.iter().flat_map(|outcome| &outcome.steps);
    let is_of_local_policy = |step: &Step<'_>| {
        step.chain.starts_with("KUBE-EXT-") || step.chain.starts_with("KUBE-XLB-")
    };
    let is_conditional = |step: &Step<'_>| {
        let has_type = step.rule.matches.iter().any(|one| one.name() == "addrtype");
        has_type || step.rule.source.is_some() || step.rule.in_interface.is_some()
    };
    if all()
        .any(|step| is_of_local_policy(step) && leads(step, "KUBE-SVC-") && is_conditional(step))
    {
        return EndpointScope::AllDespiteLocal;
    }
    if all().any(|step| leads(step, "KUBE-SVL-") || leads(step, "KUBE-XLB-")) {
        return EndpointScope::Local;
    }
    EndpointScope::All
}

/// Traces packets of the first endpoint to the destination, if endpoints see the addresses of
/// these clients, and reports whether they are masqueraded when they return to it.
fn has_hairpin(node: &NodeRules<'_>, to: &PacketDestination, traced: &[TraceOutcome<'_>]) -> bool {
    let Some(Verdict::Delivered {
        to: endpoint,
        masqueraded: false,
        ..
    }) = traced.first().map(|outcome| &outcome.verdict)
    else {
        return false;
    };
    let own = outcomes(
        node,
        to,
        *endpoint,
        node.detector.pod_interface(node.rules).as_deref(),
    );
    own.iter().any(|outcome| {
        matches!(
            outcome.verdict,
            Verdict::Delivered { to, masqueraded: true, .. } if to == *endpoint
        )
    })
}
