//! Explanations: everything that is reported about one destination.
//!
//! Finds the destinations of a query, traces the packets of each kind of client, and builds their
//! paths from the outcomes of the tracer: splits the rules into those that match all packets and
//! those of one branch, and derives the result of each branch.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::client::{self, Client, ClientSelection};
use super::destination::{self, NotFound, PacketDestination, Query};
use super::node::{AddressOrigin, NodeRules};
use super::path::{
    BlockReason, Branch, EndpointScope, MasqueradeReason, PacketPath, PathResult, SeenSource,
    TraversedRules, add_new, is_same,
};
use crate::inspect::catalog::{
    FrontendConflict, FrontendDisposition, FrontendView, RequiredChain, RequiredJump, RulesetGap,
};
use crate::net::Protocol;
use crate::rules::{
    Backend, BridgePort, Network, Packet, Step, Table, Target, TraceOutcome, Verdict,
    trace as trace_packet,
};
use crate::ruleset::ChainKind;

/// Paths of packets to one destination.
#[derive(Debug, Clone)]
pub struct Explanation<'a> {
    pub to: PacketDestination,
    /// Paths of different clients: at least one.
    pub paths: Vec<PacketPath<'a>>,
    /// Timeout of `sessionAffinity: ClientIP`; `None`: no affinity.
    pub affinity: Option<Duration>,
    /// `loadBalancerSourceRanges` of the Service; empty: not limited.
    pub source_ranges: Vec<Network>,
    /// Service ports that declare this frontend without effect, because another Service has it.
    pub conflicts: Vec<FrontendConflict>,
    /// Endpoints of the Services of this destination in the rules.
    pub endpoints: BTreeSet<SocketAddr>,
    /// Addresses to which conntrack sends UDP clients of this destination although they are no
    /// endpoints in the rules; empty if conntrack was not read.
    pub stale_flows: BTreeSet<SocketAddr>,
    /// The assumed address of the node, if none is known. Packets from or to an endpoint that has
    /// the real one would traverse other rules.
    pub assumed_node_ip: Option<IpAddr>,
    pub destination_origin: AddressOrigin,
    /// Number of rules of the node that cannot be read: any may be about the destination.
    pub unreadable_rules: usize,
    /// Pods are omitted, because no address of one is known.
    pub lacks_pod_address: bool,
    /// Tables that are not in the input; rules there may match these packets.
    pub missing_tables: BTreeSet<Table>,
    /// Unknown tables that have rules, which are not read.
    pub unread_tables: Vec<Box<str>>,
}

impl Explanation<'_> {
    /// Returns the address of this destination, if it is that of a Service and conntrack may send
    /// clients elsewhere than the rules: UDP has no other connections.
    pub(crate) fn udp_frontend(&self) -> Option<SocketAddr> {
        let is_udp = self.to.protocol == Protocol::Udp && !self.to.frontends.is_empty();
        is_udp.then(|| SocketAddr::new(self.to.ip, self.to.port.get()))
    }

    /// Notes a conntrack entry of a client, by the address that its replies come from.
    pub(crate) fn add_flow(&mut self, reply_source: SocketAddr) {
        if !self.endpoints.contains(&reply_source) {
            self.stale_flows.insert(reply_source);
        }
    }
}

/// Explains every destination of a query.
///
/// # Errors
///
/// If no rules match the query, or no client that can be selected reaches a destination.
pub fn explain<'a>(
    query: &Query,
    nodes: &[NodeRules<'a>],
    selection: &ClientSelection,
) -> Result<Vec<Explanation<'a>>, NotFound> {
    let found = destination::find(query, nodes)?;
    let lacks_pod_address = |(node, to): &(&NodeRules<'_>, PacketDestination)| {
        client::lacks_pod_address(node, to, selection)
    };
    let lacks_pod_address = found.iter().any(lacks_pod_address);
    let explained = found
        .into_iter()
        .filter_map(|(node, to)| of_destination(node, to, selection));
    let explained: Vec<_> = explained.collect();
    if explained.is_empty() {
        return Err(if lacks_pod_address {
            NotFound::Pods
        } else {
            NotFound::Client
        });
    }
    Ok(explained)
}

fn of_destination<'a>(
    node: &NodeRules<'a>,
    to: PacketDestination,
    selection: &ClientSelection,
) -> Option<Explanation<'a>> {
    let mut paths: Vec<PacketPath<'a>> = Vec::new();
    for client in client::clients(node, &to, selection) {
        let path = trace(node, &to, client);
        match paths.iter_mut().find(|known| known.is_equivalent(&path)) {
            Some(known) => known.merge(path),
            None => paths.push(path),
        }
    }
    let balanced = to
        .views(node)
        .find(|(frontend, _)| frontend.is_load_balancer());
    let source_ranges = balanced.map(|(_, view)| view.source_ranges.clone());
    let source_ranges = source_ranges.unwrap_or_default();
    let affinity = to.views(node).find_map(|(_, view)| view.affinity);
    let views = to.views(node).flat_map(|(_, view)| &view.endpoints);
    let endpoints = views.map(|endpoint| endpoint.address).collect();
    (!paths.is_empty()).then(|| Explanation {
        affinity,
        endpoints,
        stale_flows: BTreeSet::new(),
        conflicts: to.conflicts(node).cloned().collect(),
        assumed_node_ip: node.assumed_ip(),
        destination_origin: node.origin_of(to.ip),
        unreadable_rules: node.catalog.unknown.unreadable,
        lacks_pod_address: client::lacks_pod_address(node, &to, selection),
        missing_tables: node.missing_tables.clone(),
        unread_tables: unread_tables(node),
        source_ranges,
        paths,
        to,
    })
}

fn unread_tables(node: &NodeRules<'_>) -> Vec<Box<str>> {
    let tables = node.rules.unknown_tables();
    let with_rules = tables.filter(|(_, rules)| *rules > 0);
    with_rules.map(|(table, _)| table.into()).collect()
}

fn trace<'a>(node: &NodeRules<'a>, to: &PacketDestination, client: Client) -> PacketPath<'a> {
    let source = client.ip;
    let packet = packet(node, to, &client);
    let outcomes = trace_packet(node.rules, &packet, &node.traced_node);
    let traversed = traversed(node, to, source, &outcomes);
    let (before, after) = shared_steps(&outcomes);
    let first = outcomes.first().map(|one| one.steps.as_slice());
    let steps = first.unwrap_or_default();
    let tail = steps.len() - after;
    let mut undecided = Vec::new();
    for outcome in &outcomes {
        add_new(&mut undecided, &outcome.undecided);
    }
    let is_cut_off = outcomes.iter().any(|outcome| outcome.is_cut_off);
    let steps_before: Vec<Step<'a>> = steps.iter().take(before).copied().collect();
    let steps_after: Vec<Step<'a>> = steps.iter().skip(tail).copied().collect();
    let scope = scope(&outcomes);
    let all_steps = outcomes.iter().flat_map(|outcome| &outcome.steps);
    let targets: BTreeSet<&str> = all_steps
        .filter_map(|step| step.rule.target_chain())
        .collect();
    let branches: Vec<Branch<'a>> = outcomes
        .into_iter()
        .map(|outcome| {
            let result = result(node, to, source, &outcome);
            branch(
                outcome,
                if_tables_are_known(node, to, result),
                before,
                before + after,
            )
        })
        .collect();
    let mut results = branches.iter().map(|branch| &branch.result);
    let gaps = relevant_gaps(node, to, source, &branches, &targets);
    PacketPath {
        other_backend: other_backend(node, &packet),
        clients: vec![client],
        has_other_rules: false,
        before: steps_before,
        after: steps_after,
        scope,
        undecided,
        is_cut_off,
        gaps,
        missing_table: results.find_map(|result| table_that_may_block(node, result)),
        traversed,
        branches,
    }
}

/// Returns the branch of an outcome. `shared` is the number of its rules that all outcomes have in
/// common, `before` of them in front of its own.
fn branch(
    outcome: TraceOutcome<'_>,
    result: PathResult,
    before: usize,
    shared: usize,
) -> Branch<'_> {
    let own = outcome.steps.len() - shared;
    Branch {
        share: outcome.share,
        result,
        is_unclear: !outcome.undecided.is_empty(),
        steps: outcome.steps.into_iter().skip(before).take(own).collect(),
        reply_steps: match outcome.verdict {
            Verdict::Unanswered { .. } => outcome.reply_steps,
            _ => Vec::new(),
        },
    }
}

fn packet(node: &NodeRules<'_>, to: &PacketDestination, client: &Client) -> Packet {
    let source = client.ip;
    Packet {
        source,
        destination: to.ip,
        protocol: to.protocol,
        port: to.port,
        in_interface: client.in_interface.clone(),
        // Some networks attach pods to bridges, and other hosts are rarely behind one.
        bridge_port: if node.detector.has(source) || node.index.has_endpoint(source) {
            BridgePort::Unknown
        } else {
            BridgePort::None
        },
    }
}

/// Returns the other backend if its rules alone do anything to the packets.
fn other_backend(node: &NodeRules<'_>, packet: &Packet) -> Option<Backend> {
    let (backend, rules) = node.other_backend?;
    let outcomes = trace_packet(rules, packet, &node.traced_node);
    let unaffected = Verdict::Passed { masqueraded: false };
    let is_affected =
        |outcome: &TraceOutcome<'_>| outcome.verdict != unaffected || !outcome.undecided.is_empty();
    outcomes.iter().any(is_affected).then_some(backend)
}

/// Counts the rules that the first packet traverses; `None` if rules of a missing table are among
/// them, or it is dropped by routing between two hooks.
fn traversed(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    source: IpAddr,
    outcomes: &[TraceOutcome<'_>],
) -> Option<TraversedRules> {
    let is_martian = to.ip.is_loopback() && !node.traced_node.is_local(source);
    let is_complete = node.missing_tables.is_empty() && !is_martian;
    is_complete.then(|| TraversedRules::of(outcomes))?
}

/// Returns the missing jumps and chains that these packets depend on. `targets` are the chains that
/// they jumped to.
fn relevant_gaps(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    source: IpAddr,
    branches: &[Branch<'_>],
    targets: &BTreeSet<&str>,
) -> Vec<RulesetGap> {
    let mut results = branches.iter().map(|branch| &branch.result);
    let is_passed = results.any(|result| matches!(result, PathResult::Passed { .. }));
    let is_relevant = |gap: &&RulesetGap| match gap {
        RulesetGap::Jump(RequiredJump::Postrouting) => {
            targets.contains(RequiredChain::Postrouting.marks_in())
        }
        RulesetGap::Jump(jump) => {
            let is_first = match jump {
                RequiredJump::Prerouting => !node.traced_node.is_local(source),
                RequiredJump::Output => node.traced_node.is_local(source),
                RequiredJump::NodePorts | RequiredJump::Postrouting => true,
            };
            let mut frontends = to.frontends.iter();
            is_first && is_passed && frontends.any(|frontend| jump.leads_to(frontend.kind))
        }
        RulesetGap::NoChain(chain) | RulesetGap::NoEffect(chain) => {
            targets.contains(chain.marks_in())
        }
    };
    node.gaps.iter().filter(is_relevant).copied().collect()
}

/// Returns how many steps all outcomes have in common before they branch, and how many after that.
fn shared_steps(outcomes: &[TraceOutcome<'_>]) -> (usize, usize) {
    let shortest = outcomes.iter().map(|one| one.steps.len()).min();
    let shortest = shortest.unwrap_or_default();
    if outcomes.len() <= 1 {
        return (shortest, 0);
    }
    let before = common(outcomes, shortest, <[Step<'_>]>::iter);
    let most = shortest - before;
    (before, common(outcomes, most, |steps| steps.iter().rev()))
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
        Verdict::Unanswered {
            to,
            port,
            masqueraded,
            loss,
        } => PathResult::Unanswered {
            to: SocketAddr::new(*to, *port),
            source: seen(*masqueraded),
            loss: *loss,
            reason: BlockReason::of_reply(outcome),
        },
        Verdict::Passed { .. } if to.ip.is_loopback() && !node.traced_node.is_local(source) => {
            PathResult::Dropped(BlockReason::Martian)
        }
        Verdict::Passed { masqueraded } => PathResult::Passed {
            is_local: node.traced_node.is_local(to.ip),
            source: seen(*masqueraded),
        },
        Verdict::Dropped => PathResult::Dropped(drop_reason(node, to, outcome)),
        Verdict::Rejected => PathResult::Rejected(BlockReason::of(outcome)),
        Verdict::Unclear(why) => PathResult::Unclear(why.clone()),
    }
}

/// Returns the reason for a drop. Under policy Local, the chain of external traffic leads nowhere
/// if no endpoint is on the node, which another rule for the same frontend shows.
fn drop_reason(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    outcome: &TraceOutcome<'_>,
) -> BlockReason {
    let is_of_local_policy = |frontend: &FrontendView| {
        (frontend.ip, frontend.port) == (Some(to.ip), to.port.get())
            && frontend.disposition == FrontendDisposition::Dropped
    };
    let mut frontends = to.views(node).flat_map(|(_, view)| &view.frontends);
    match BlockReason::of(outcome) {
        BlockReason::DeadEnd(_) if frontends.any(is_of_local_policy) => {
            BlockReason::NoLocalExternal
        }
        reason => reason,
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
    let target = |step: &Step<'_>| step.rule.target_chain().and_then(ChainKind::of);
    let all = || outcomes.iter().flat_map(|outcome| &outcome.steps);
    let is_of_local_policy = |step: &Step<'_>| {
        matches!(
            ChainKind::of(step.chain),
            Some(ChainKind::External | ChainKind::RetiredExternal)
        )
    };
    let is_conditional = |step: &Step<'_>| {
        let has_type = step.rule.matches.iter().any(|one| one.name() == "addrtype");
        has_type || step.rule.source.is_some() || step.rule.in_interface.is_some()
    };
    let routes_all = |step: &Step<'_>| target(step) == Some(ChainKind::Cluster);
    if all().any(|step| is_of_local_policy(step) && routes_all(step) && is_conditional(step)) {
        return EndpointScope::AllDespiteLocal;
    }
    let is_local = |kind| matches!(kind, ChainKind::Local | ChainKind::RetiredExternal);
    if all().any(|step| target(step).is_some_and(is_local)) {
        return EndpointScope::Local;
    }
    EndpointScope::All
}
