//! Derives from the traversed rules why packets are dropped, rejected or masqueraded.
//!
//! The tracer knows no Services; here chains and comments of kube-proxy get their meaning.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.37). Until 1.25, packets outside
//! of `loadBalancerSourceRanges` and those without a local endpoint were marked, and dropped in
//! `KUBE-FIREWALL`.

use crate::rules::{Match, Rule, Step, Target, TraceOutcome, TracedTable};
use crate::ruleset::{
    ChainKind, KUBE_EXTERNAL_SERVICES, KUBE_FIREWALL, KUBE_MARK_DROP, KUBE_MARK_MASQ,
    KUBE_NODEPORTS, KUBE_POSTROUTING, KUBE_PROXY_FIREWALL, KUBE_SERVICES, PortComment,
    is_service_chain, tree_of,
};

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
