//! The path of one client's packets: the rules that they traverse and how they end.
//!
//! Built by [`trace`](super::trace); every output format is rendered from it.

use std::net::{IpAddr, SocketAddr};

use super::client::Client;
use super::reason::{BlockReason, MasqueradeReason};
use crate::inspect::catalog::RulesetGap;
use crate::rules::{
    Backend, ReplyLoss, Share, Step, Table, TraceOutcome, TracedTable, Unclear, Verdict,
};
use crate::ruleset::{KUBE_POSTROUTING, holds_dispatch_rules, is_proxy_chain};

/// Path of the packets of clients with equal results.
#[derive(Debug, Clone)]
pub struct PacketPath<'a> {
    /// Clients that send the packets; the rules are those of the first one.
    pub clients: Vec<Client>,
    pub shared_rules: SharedRules,
    /// Rules that match all packets before the path branches, or all rules if it does not.
    pub before: Vec<Step<'a>>,
    /// Branches in the order of the rules: one for each random choice.
    pub branches: Vec<Branch<'a>>,
    /// Rules that match all packets after the branches.
    pub after: Vec<Step<'a>>,
    pub scope: EndpointScope,
    /// An endpoint that reaches itself is masqueraded, while these clients are not.
    pub has_hairpin: bool,
    /// Rules that cannot be evaluated and could change the results; these assume that none of the
    /// rules matches.
    pub undecided: Vec<Step<'a>>,
    /// Missing jumps and fixed chains that these packets depend on.
    pub gaps: Vec<RulesetGap>,
    /// The rules have too many paths, so that not every combination of the undecided ones was
    /// tried.
    pub is_cut_off: bool,
    /// Backend whose rules are not shown and affect these packets as well. The order in which
    /// packets traverse both backends is undefined.
    pub other_backend: Option<Backend>,
    /// Table that is not in the input and may change the result.
    pub missing_table: Option<Table>,
    /// Rules that the first packet of the first client traverses; `None` if it is not traced to its
    /// end, or a table is not in the input.
    pub traversed: Option<TraversedRules>,
}

/// Packets of a path that one random choice selects.
#[derive(Debug, Clone)]
pub struct Branch<'a> {
    pub share: Share,
    pub result: PathResult,
    /// One of the path's undecided rules could change the result or the share.
    pub is_unclear: bool,
    /// Rules that match only these packets.
    pub steps: Vec<Step<'a>>,
    /// Rules that match the reply to these packets; empty unless it is lost.
    pub reply_steps: Vec<Step<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathResult {
    /// Delivered to an endpoint.
    Served { to: SocketAddr, source: SeenSource },
    /// Delivered to an endpoint, whose reply does not reach the client.
    Unanswered {
        to: SocketAddr,
        source: SeenSource,
        loss: ReplyLoss,
        reason: BlockReason,
    },
    /// Destination not translated: delivered to this node, or routed on.
    Passed {
        /// The destination is an address of this node.
        is_local: bool,
        source: SeenSource,
    },
    /// Dropped without an answer.
    Dropped(BlockReason),
    /// Answered with an ICMP error.
    Rejected(BlockReason),
    /// Rules that cannot be traced.
    Unclear(Unclear),
    /// The decision is up to a table that is not in the input.
    MissingTable(Table),
}

/// Source address that a receiver sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenSource {
    Client,
    Node(MasqueradeReason),
    /// Another address, set by a third-party rule; `None`: one of several.
    Other(Option<IpAddr>),
}

/// Endpoints that the rules of a Service choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointScope {
    /// All usable endpoints.
    All,
    /// Endpoints on this node, because of a traffic policy Local.
    Local,
    /// All usable endpoints in spite of `externalTrafficPolicy: Local`, as the client is a pod of
    /// the cluster or the node.
    AllDespiteLocal,
}

/// Extent to which clients with equal results traverse the same rules. Their paths are shown once,
/// by the rules of the first client, so that differences have to be mentioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedRules {
    /// All rules are the same, or there is only one client.
    All,
    /// Only jumps to chains in which no rule matches differ.
    ExceptFruitlessJumps,
    /// Other rules lead to the same result, for example from another hook.
    ResultOnly,
}

impl SharedRules {
    /// Compares two paths with equal results.
    fn of(left: &PacketPath<'_>, right: &PacketPath<'_>) -> Self {
        match () {
            () if left.all_steps().eq(right.all_steps()) => Self::All,
            () if left.shared_effective() == right.shared_effective() => Self::ExceptFruitlessJumps,
            () => Self::ResultOnly,
        }
    }
}

impl<'a> PacketPath<'a> {
    /// Returns every rule of one of its branches, in order.
    pub fn steps<'p>(&'p self, branch: &'p Branch<'a>) -> impl Iterator<Item = &'p Step<'a>> {
        self.before.iter().chain(&branch.steps).chain(&self.after)
    }

    fn all_steps(&self) -> impl Iterator<Item = &Step<'a>> {
        self.branches.iter().flat_map(|branch| self.steps(branch))
    }

    /// Returns the built-in chains whose policy drops packets, with the fraction that it drops.
    pub fn policies(&self) -> Vec<(TracedTable, &'static str, Share)> {
        let mut policies: Vec<(TracedTable, &'static str, Share)> = Vec::new();
        for branch in &self.branches {
            let Some(at) = branch.policy() else {
                continue;
            };
            match policies.iter_mut().find(|known| (known.0, known.1) == at) {
                Some((_, _, share)) => *share = share.plus(branch.share),
                None => policies.push((at.0, at.1, branch.share)),
            }
        }
        policies
    }

    /// Reports whether both have the same results by the same rules of Services, so that the
    /// clients differ only in how their packets enter the node.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        let results = |path: &Self| {
            let branches = path.branches.iter();
            let pairs =
                branches.map(|branch| (branch.share, branch.is_unclear, branch.result.clone()));
            pairs.collect::<Vec<_>>()
        };
        let service_rules = |path: &Self| {
            let is_of_service = |step: &&Step<'a>| {
                step.table == Table::Nat
                    && is_proxy_chain(Table::Nat, step.chain)
                    && step.chain != KUBE_POSTROUTING
            };
            let steps = path.all_steps().filter(is_of_service);
            let rules = steps.map(|step| std::ptr::from_ref(step.rule));
            rules.collect::<Vec<_>>()
        };
        // The cause why packets are not sent to endpoints.
        let missing_jumps = |path: &Self| {
            let gaps = path.gaps.iter().filter(|gap| !gap.concerns_marks());
            gaps.copied().collect::<Vec<_>>()
        };
        results(self) == results(other)
            && missing_jumps(self) == missing_jumps(other)
            && self.scope == other.scope
            && self.other_backend == other.other_backend
            && service_rules(self) == service_rules(other)
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.shared_rules = self.shared_rules.max(SharedRules::of(self, &other));
        self.clients.extend(other.clients);
        self.has_hairpin |= other.has_hairpin;
        self.is_cut_off |= other.is_cut_off;
        add_new(&mut self.undecided, &other.undecided);
        self.gaps.extend(other.gaps);
        self.gaps.sort_unstable();
        self.gaps.dedup();
    }

    /// Returns the rules before the branches, without fruitless jumps.
    pub(super) fn effective_before(&self) -> Vec<&Step<'a>> {
        let next = self.branches.first();
        let next = next.and_then(|branch| branch.steps.first());
        without_fruitless_jumps(&self.before, next)
    }

    /// Returns the rules before and after the branches, without fruitless jumps.
    pub(super) fn shared_effective(&self) -> Vec<&Step<'a>> {
        let mut shared = self.effective_before();
        shared.extend(without_fruitless_jumps(&self.after, None));
        shared
    }
}

impl Branch<'_> {
    /// Returns the built-in chain whose policy drops these packets, if no rule does.
    pub fn policy(&self) -> Option<(TracedTable, &'static str)> {
        match self.result {
            PathResult::Dropped(BlockReason::Policy(table, chain)) => Some((table, chain)),
            _ => None,
        }
    }
}

/// Omits jumps to chains in which no rule matched; `next` follows the last step.
pub(super) fn without_fruitless_jumps<'s, 'a>(
    steps: &'s [Step<'a>],
    next: Option<&'s Step<'a>>,
) -> Vec<&'s Step<'a>> {
    let mut effective: Vec<&Step<'a>> = Vec::new();
    let mut next = next;
    for step in steps.iter().rev() {
        let leads_on = |chain| next.is_some_and(|next: &Step<'_>| next.chain == chain);
        if step.rule.target_chain().is_none_or(leads_on) {
            effective.push(step);
            next = Some(step);
        }
    }
    effective.reverse();
    effective
}

/// Reports whether both are the very same rule; two rules may have the same text.
pub(super) fn is_same(left: &Step<'_>, right: &Step<'_>) -> bool {
    std::ptr::eq(left.rule, right.rule)
}

pub(super) fn add_new<'a>(to: &mut Vec<Step<'a>>, from: &[Step<'a>]) {
    for step in from {
        if !to.iter().any(|known| is_same(known, step)) {
            to.push(*step);
        }
    }
}

/// Rules that the kernel evaluates for the first packet of a connection, whether they match or
/// not. If rules choose by chance, those of the choice with the most. Rules in `unsure` are taken
/// not to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraversedRules {
    /// Number of rules in all chains of all tables.
    pub rules: usize,
    /// Number of rules among them in dispatch chains (`KUBE-SERVICES`, `KUBE-NODEPORTS`,
    /// `KUBE-EXTERNAL-SERVICES`, `KUBE-PROXY-FIREWALL`) and the chains of their trees.
    pub dispatch_rules: usize,
}

impl TraversedRules {
    /// Returns the most rules of an outcome; `None` if a packet is not traced to its end.
    pub(super) fn of(outcomes: &[TraceOutcome<'_>]) -> Option<Self> {
        let is_unclear =
            |outcome: &TraceOutcome<'_>| matches!(outcome.verdict, Verdict::Unclear(_));
        if outcomes.iter().any(is_unclear) {
            return None;
        }
        outcomes.iter().map(Self::of_outcome).max()
    }

    fn of_outcome(outcome: &TraceOutcome<'_>) -> Self {
        let chains = outcome.traversed.iter();
        let of_dispatch = chains.filter(|one| {
            let table = one.table.of_proxy();
            table.is_some_and(|table| holds_dispatch_rules(table, one.chain))
        });
        Self {
            rules: outcome.traversed.iter().map(|one| one.rules).sum(),
            dispatch_rules: of_dispatch.map(|one| one.rules).sum(),
        }
    }
}
