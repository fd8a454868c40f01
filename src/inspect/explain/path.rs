//! The path of one client's packets: the rules that they traverse, how they end, and why they are
//! dropped, rejected or masqueraded.
//!
//! Built by [`trace`](super::explanation::trace); every output format is rendered from it. The
//! tracer knows no Services; here chains and comments of kube-proxy get their meaning.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.37). Until 1.25, packets outside
//! of `loadBalancerSourceRanges` and those without a local endpoint were marked, and dropped in
//! `KUBE-FIREWALL`.

use std::net::{IpAddr, SocketAddr};

use super::client::Client;
use crate::inspect::catalog::RulesetGap;
use crate::rules::{
    Backend, Match, ReplyLoss, Rule, Share, Step, Table, Target, TraceOutcome, TracedTable,
    Unclear, Verdict,
};
use crate::ruleset::{
    ChainKind, KUBE_EXTERNAL_SERVICES, KUBE_FIREWALL, KUBE_MARK_DROP, KUBE_MARK_MASQ,
    KUBE_NODEPORTS, KUBE_POSTROUTING, KUBE_PROXY_FIREWALL, KUBE_SERVICES, PortComment,
    holds_dispatch_rules, is_proxy_chain, is_service_chain, tree_of,
};

/// Path of the packets of clients with equal results.
#[derive(Debug, Clone)]
pub struct PacketPath<'a> {
    /// Clients that send the packets; the rules are those of the first one.
    pub clients: Vec<Client>,
    /// Other clients than the first one traverse other rules, with the same result.
    pub has_other_rules: bool,
    /// Rules that match all packets before the path branches, or all rules if it does not.
    pub before: Vec<Step<'a>>,
    /// Branches in the order of the rules: one for each random choice.
    pub branches: Vec<Branch<'a>>,
    /// Rules that match all packets after the branches.
    pub after: Vec<Step<'a>>,
    pub scope: EndpointScope,
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
        self.has_other_rules |= !self.all_steps().eq(other.all_steps());
        self.clients.extend(other.clients);
        self.is_cut_off |= other.is_cut_off;
        add_new(&mut self.undecided, &other.undecided);
        self.gaps.extend(other.gaps);
        self.gaps.sort_unstable();
        self.gaps.dedup();
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

/// Reason why packets are dropped or rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockReason {
    /// The Service has no usable endpoint.
    NoEndpoints,
    /// `internalTrafficPolicy` is Local, and no endpoint is on this node.
    NoLocalInternal,
    /// `externalTrafficPolicy` is Local, and no endpoint is on this node.
    NoLocalExternal,
    /// The client is not in `loadBalancerSourceRanges`.
    SourceNotAllowed,
    /// The client is in `loadBalancerSourceRanges`, and no rule of this chain leads to an endpoint:
    /// the firewall of the load balancer drops what was not translated.
    DeadEnd(Box<str>),
    /// The destination is a loopback address, and the client is not on this node.
    Loopback,
    /// The kernel drops packets from other hosts to a loopback address, without any rule. The
    /// sysctl `route_localnet` disables that; proxies that set it install a rule in place of it.
    Martian,
    /// No rule accepts the packet, and the policy of the built-in chain is DROP.
    Policy(TracedTable, &'static str),
    /// Third-party rule that drops or rejects the packet.
    Rule {
        table: TracedTable,
        chain: Box<str>,
        /// Rule that matched last.
        rule: Box<Rule>,
    },
}

/// Reason why receivers see the node's address instead of the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MasqueradeReason {
    NotPod,
    /// All traffic to cluster IPs is masqueraded.
    All,
    /// `externalTrafficPolicy` is Cluster: the endpoint may be on another node.
    External,
    /// The client is this node, with `externalTrafficPolicy: Local`.
    FromNode,
    Hairpin,
    ThirdParty,
}

impl BlockReason {
    /// Returns the reason for an outcome that is a drop or a reject.
    pub(super) fn of(outcome: &TraceOutcome<'_>) -> Self {
        let Some(last) = blocking(&outcome.steps) else {
            let (table, chain) = outcome.at;
            return Self::Policy(table, chain);
        };
        let comment = last.rule.comment().and_then(PortComment::parse);
        let comment = comment.map(|(comment, _)| comment);
        let marked_in = |kind: ChainKind| {
            let mut steps = outcome.steps.iter();
            steps.any(|step| {
                ChainKind::of(step.chain) == Some(kind)
                    && step.rule.target_chain() == Some(KUBE_MARK_DROP)
            })
        };
        let is_drop = matches!(last.rule.target, Some(Target::Drop));
        // Without a comment that can be read, the target tells the same.
        let has_no_endpoints =
            comment.map_or(!is_drop, |comment| comment == PortComment::NoEndpoints);
        let dispatch = last
            .table
            .of_proxy()
            .and_then(|table| tree_of(table, last.chain));
        match dispatch.map_or(last.chain, |dispatch| dispatch.name()) {
            KUBE_SERVICES | KUBE_EXTERNAL_SERVICES if has_no_endpoints => Self::NoEndpoints,
            KUBE_SERVICES => Self::NoLocalInternal,
            KUBE_EXTERNAL_SERVICES => Self::NoLocalExternal,
            KUBE_PROXY_FIREWALL => Self::of_firewall(&outcome.steps),
            KUBE_FIREWALL if marked_in(ChainKind::RetiredExternal) => Self::NoLocalExternal,
            KUBE_FIREWALL if marked_in(ChainKind::SourceRanges) => {
                Self::of_firewall(&outcome.steps)
            }
            KUBE_FIREWALL if last.rule.source.is_some_and(|matched| matched.negated) => {
                Self::Loopback
            }
            _ => Self::by_rule(last),
        }
    }

    /// Returns the reason why the reply to a packet is lost.
    pub(super) fn of_reply(outcome: &TraceOutcome<'_>) -> Self {
        let steps = &outcome.reply_steps;
        let deciding = blocking(steps).or_else(|| exemption(steps));
        let (table, chain) = outcome.at;
        deciding.map_or(Self::Policy(table, chain), Self::by_rule)
    }

    /// Returns the reason why the firewall of a load balancer drops packets. Its chain jumps on for
    /// clients in the source ranges only.
    fn of_firewall(steps: &[Step<'_>]) -> Self {
        let targets = steps
            .iter()
            .rev()
            .filter_map(|step| step.rule.target_chain());
        let mut service_chains = targets.filter(|chain| is_service_chain(chain));
        let last = service_chains.next();
        let admitted = last.filter(|chain| ChainKind::of(chain) != Some(ChainKind::SourceRanges));
        admitted.map_or(Self::SourceNotAllowed, |chain| Self::DeadEnd(chain.into()))
    }

    fn by_rule(step: &Step<'_>) -> Self {
        Self::Rule {
            table: step.table,
            chain: step.chain.into(),
            rule: Box::new(step.rule.clone()),
        }
    }
}

/// Returns the rule that drops or rejects packets, if one does: the last of them.
fn blocking<'s, 'a>(steps: &'s [Step<'a>]) -> Option<&'s Step<'a>> {
    let ends = |rule: &Rule| matches!(rule.target, Some(Target::Drop | Target::Reject(_)));
    steps.last().filter(|step| ends(step.rule))
}

/// Returns the rule that exempts packets from connection tracking, if one does.
pub(super) fn exemption<'s, 'a>(
    steps: impl IntoIterator<Item = &'s Step<'a>>,
) -> Option<&'s Step<'a>>
where
    'a: 's,
{
    let exempts = |step: &&Step<'_>| {
        let target = step.rule.target.as_ref();
        target.is_some_and(Target::exempts_from_tracking)
    };
    steps.into_iter().find(exempts)
}

impl MasqueradeReason {
    /// Returns the reason for an outcome that is masqueraded.
    pub(super) fn of(steps: &[Step<'_>]) -> Self {
        let is_of_proxy = steps.iter().any(|step| {
            step.chain == KUBE_POSTROUTING
                && matches!(step.rule.target, Some(Target::Masquerade { .. }))
        });
        let marking = steps
            .iter()
            .find(|step| step.rule.target_chain() == Some(KUBE_MARK_MASQ));
        match marking {
            Some(step) if is_of_proxy => Self::by(step),
            _ => Self::ThirdParty,
        }
    }

    fn by(step: &Step<'_>) -> Self {
        let (chain, rule) = (step.chain, step.rule);
        let matches_node = rule.matches.iter().any(
            |one| matches!(one, Match::AddressType { source: Some(matched), .. } if !matched.negated),
        );
        let excludes_pods = rule.source.is_some_and(|matched| matched.negated)
            || rule
                .in_interface
                .as_ref()
                .is_some_and(|matched| matched.negated);
        let comment = rule.comment().and_then(PortComment::parse);
        match (ChainKind::of(chain), comment.map(|(comment, _)| comment)) {
            (Some(ChainKind::Endpoint), _) => Self::Hairpin,
            (Some(ChainKind::External | ChainKind::RetiredExternal), _) if matches_node => {
                Self::FromNode
            }
            (
                Some(ChainKind::External | ChainKind::SourceRanges | ChainKind::RetiredExternal),
                _,
            ) => Self::External,
            _ if chain == KUBE_NODEPORTS => Self::External,
            _ if excludes_pods => Self::NotPod,
            (_, Some(PortComment::ExternalIp | PortComment::LoadBalancerIp)) => Self::External,
            _ => Self::All,
        }
    }
}
