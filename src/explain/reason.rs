//! Why packets end as they do, read off the rules that they met.
//!
//! Apart because these are the answers that people come for; the tracer knows no Services.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.36). Until 1.25 firewalls and
//! policy Local marked packets to be dropped by `KUBE-FIREWALL`.

use crate::rules::{Match, Outcome, Rule, Step, Table, Target};

/// Why packets are dropped or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The Service has no endpoint that could answer.
    NoEndpoints,
    /// Policy Local, of traffic from the cluster, and no endpoint on this node.
    NoLocalInternal,
    /// Policy Local, of traffic from outside, and no endpoint on this node.
    NoLocalExternal,
    /// The load balancer's source ranges do not admit the client.
    NotAdmitted,
    /// Others than the node's own programs ask for an address of its loopback interface.
    Loopback,
    /// No rule was asked: the kernel takes no packet from elsewhere to a loopback address. With
    /// `route_localnet` it would, but whoever sets that also brings a rule against it.
    Martian,
    /// No rule lets it pass, and the chain's policy is to drop.
    Policy(Table, &'static str),
    /// Some other rule, not of Services.
    Rule {
        /// Where its chain is.
        table: Table,
        /// The chain.
        chain: Box<str>,
        /// The rule.
        rule: Box<Rule>,
    },
}

/// Why receivers see the node's address instead of the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Masquerade {
    /// The client is none of this cluster's pods.
    NotPod,
    /// All traffic to cluster IPs is.
    All,
    /// External traffic under policy Cluster is, because the endpoint may be on another node.
    External,
    /// The client is this node, under policy Local.
    FromNode,
    /// The client was sent to itself.
    Hairpin,
    /// Some rule not of Services does it.
    Foreign,
}

impl Refusal {
    /// Why an outcome that is one is a drop or a reject.
    pub(super) fn of(outcome: &Outcome<'_>) -> Self {
        let last = outcome.steps.last();
        let ending = |rule: &Rule| matches!(rule.target, Some(Target::Drop | Target::Reject(_)));
        let (table, chain) = outcome.at;
        let Some(last) = last.filter(|step| ending(step.rule)) else {
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
            "KUBE-PROXY-FIREWALL" => Self::NotAdmitted,
            "KUBE-FIREWALL" if marked_in("KUBE-FW-") => Self::NotAdmitted,
            "KUBE-FIREWALL" if marked_in("KUBE-XLB-") => Self::NoLocalExternal,
            "KUBE-FIREWALL" if last.rule.source.is_some_and(|asked| asked.negated) => {
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

impl Masquerade {
    /// Why an outcome that is masqueraded is so.
    pub(super) fn of(steps: &[Step<'_>]) -> Self {
        let ours = steps.iter().any(|step| {
            step.chain == "KUBE-POSTROUTING"
                && matches!(step.rule.target, Some(Target::Masquerade { .. }))
        });
        let marking = steps
            .iter()
            .find(|step| step.rule.target_chain() == Some("KUBE-MARK-MASQ"));
        match marking {
            Some(step) if ours => Self::by(step),
            _ => Self::Foreign,
        }
    }

    fn by(step: &Step<'_>) -> Self {
        let (chain, rule) = (step.chain, step.rule);
        let is_about_node = rule.matches.iter().any(
            |one| matches!(one, Match::AddressType { source: Some(asked), .. } if !asked.negated),
        );
        let is_about_others = rule.source.is_some_and(|asked| asked.negated)
            || rule
                .in_interface
                .as_ref()
                .is_some_and(|asked| asked.negated);
        let begins = |prefixes: &[&str]| prefixes.iter().any(|one| chain.starts_with(one));
        let says = |text: &str| rule.comment().is_some_and(|said| said.contains(text));
        match () {
            () if chain.starts_with("KUBE-SEP-") => Self::Hairpin,
            () if begins(&["KUBE-EXT-", "KUBE-XLB-"]) && is_about_node => Self::FromNode,
            () if begins(&["KUBE-EXT-", "KUBE-FW-", "KUBE-XLB-", "KUBE-NODEPORTS"]) => {
                Self::External
            }
            () if is_about_others => Self::NotPod,
            () if says("external IP") || says("loadbalancer IP") => Self::External,
            () => Self::All,
        }
    }
}
