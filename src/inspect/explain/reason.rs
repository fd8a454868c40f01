//! Derives from the traversed rules why packets are dropped, rejected or masqueraded.
//!
//! The tracer knows no Services; here chains and comments of kube-proxy get their meaning.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.36). Until 1.25, packets outside
//! of `loadBalancerSourceRanges` and those without a local endpoint were marked, and dropped in
//! `KUBE-FIREWALL`.

use crate::rules::{Match, Rule, Step, Table, Target, TraceOutcome};

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
    /// The destination is a loopback address, and the client is not on this node.
    Loopback,
    /// The kernel drops packets from other hosts to a loopback address, without any rule. The
    /// sysctl `route_localnet` disables that; proxies that set it install a rule in place of it.
    Martian,
    /// No rule accepts the packet, and the policy of the built-in chain is DROP.
    Policy(Table, &'static str),
    /// Third-party rule that drops or rejects the packet.
    Rule {
        /// Table of the chain.
        table: Table,
        /// Chain that contains the rule.
        chain: Box<str>,
        /// Rule that matched last.
        rule: Box<Rule>,
    },
}

/// Reason why receivers see the node's address instead of the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MasqueradeReason {
    /// The client is not a pod.
    NotPod,
    /// All traffic to cluster IPs is masqueraded.
    All,
    /// `externalTrafficPolicy` is Cluster: the endpoint may be on another node.
    External,
    /// The client is this node, with `externalTrafficPolicy: Local`.
    FromNode,
    /// The client is the endpoint itself.
    Hairpin,
    /// Third-party rule.
    ThirdParty,
}

impl BlockReason {
    /// Returns the reason for an outcome that is a drop or a reject.
    pub(super) fn of(outcome: &TraceOutcome<'_>) -> Self {
        let last = outcome.steps.last();
        let ends = |rule: &Rule| matches!(rule.target, Some(Target::Drop | Target::Reject(_)));
        let (table, chain) = outcome.at;
        let Some(last) = last.filter(|step| ends(step.rule)) else {
            return Self::Policy(table, chain);
        };
        let comment = last.rule.comment().unwrap_or_default();
        let marked_in = |prefix: &str| {
            let mut steps = outcome.steps.iter();
            steps.any(|step| {
                step.chain.starts_with(prefix) && step.rule.target_chain() == Some("KUBE-MARK-DROP")
            })
        };
        match last.chain {
            "KUBE-SERVICES" | "KUBE-EXTERNAL-SERVICES" if comment.ends_with("has no endpoints") => {
                Self::NoEndpoints
            }
            "KUBE-SERVICES" if comment.ends_with("has no local endpoints") => Self::NoLocalInternal,
            "KUBE-EXTERNAL-SERVICES" if comment.ends_with("has no local endpoints") => {
                Self::NoLocalExternal
            }
            "KUBE-PROXY-FIREWALL" => Self::SourceNotAllowed,
            "KUBE-FIREWALL" if marked_in("KUBE-FW-") => Self::SourceNotAllowed,
            "KUBE-FIREWALL" if marked_in("KUBE-XLB-") => Self::NoLocalExternal,
            "KUBE-FIREWALL" if last.rule.source.is_some_and(|matched| matched.negated) => {
                Self::Loopback
            }
            chain => Self::Rule {
                table: last.table,
                chain: chain.into(),
                rule: Box::new(last.rule.clone()),
            },
        }
    }
}

impl MasqueradeReason {
    /// Returns the reason for an outcome that is masqueraded.
    pub(super) fn of(steps: &[Step<'_>]) -> Self {
        let is_of_proxy = steps.iter().any(|step| {
            step.chain == "KUBE-POSTROUTING"
                && matches!(step.rule.target, Some(Target::Masquerade { .. }))
        });
        let marking = steps
            .iter()
            .find(|step| step.rule.target_chain() == Some("KUBE-MARK-MASQ"));
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
        let begins = |prefixes: &[&str]| prefixes.iter().any(|one| chain.starts_with(one));
        let mentions = |text: &str| rule.comment().is_some_and(|comment| comment.contains(text));
        match () {
            () if chain.starts_with("KUBE-SEP-") => Self::Hairpin,
            () if begins(&["KUBE-EXT-", "KUBE-XLB-"]) && matches_node => Self::FromNode,
            () if begins(&["KUBE-EXT-", "KUBE-FW-", "KUBE-XLB-", "KUBE-NODEPORTS"]) => {
                Self::External
            }
            () if excludes_pods => Self::NotPod,
            () if mentions("external IP") || mentions("loadbalancer IP") => Self::External,
            () => Self::All,
        }
    }
}
