//! Finds what Services depend on and the rules of a node lack: entry jumps, and fixed chains with
//! their rules.
//!
//! They belong to no service port, and are lost when a chain is flushed.

use std::fmt;

use super::Catalog;
use super::reach::has_path;
use super::view::{FrontendKind, TrafficOrigin};
use crate::rules::{Rule, RuleSet, Table, Target};
use crate::ruleset::{
    IPVS_CHAINS, KUBE_MARK_DROP, KUBE_MARK_MASQ, KUBE_NODEPORTS, KUBE_POSTROUTING, KUBE_SERVICES,
    is_proxy_chain,
};

/// A jump of the nat table that Services depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequiredJump {
    /// Leads traffic from Pods and from outside to the frontends.
    Prerouting,
    /// Leads traffic from processes of the node to the frontends.
    Output,
    /// Leads marked traffic to masquerading.
    Postrouting,
    /// Leads traffic to the node's addresses to NodePorts.
    NodePorts,
}

impl RequiredJump {
    const ALL: [Self; 4] = [
        Self::Prerouting,
        Self::Output,
        Self::Postrouting,
        Self::NodePorts,
    ];

    /// Returns the origins of the traffic that it leads to frontends.
    const fn origins(self) -> &'static [TrafficOrigin] {
        match self {
            Self::Prerouting => &[TrafficOrigin::Outside],
            Self::Output => &[TrafficOrigin::Node],
            Self::NodePorts => &TrafficOrigin::ALL,
            Self::Postrouting => &[],
        }
    }

    pub const fn from(self) -> &'static str {
        match self {
            Self::Prerouting => "PREROUTING",
            Self::Output => "OUTPUT",
            Self::Postrouting => "POSTROUTING",
            Self::NodePorts => KUBE_SERVICES,
        }
    }

    pub const fn to(self) -> &'static str {
        match self {
            Self::Prerouting | Self::Output => KUBE_SERVICES,
            Self::Postrouting => KUBE_POSTROUTING,
            Self::NodePorts => KUBE_NODEPORTS,
        }
    }

    /// Reports whether packets to such frontends depend on it.
    pub const fn leads_to(self, kind: FrontendKind) -> bool {
        match self {
            Self::Prerouting | Self::Output => true,
            Self::Postrouting => false,
            Self::NodePorts => matches!(kind, FrontendKind::NodePort),
        }
    }
}

/// A fixed chain of the nat table that rules of Services depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequiredChain {
    /// Marks packets for masquerading.
    MarkMasquerade,
    /// Masquerades packets that have the mark.
    Postrouting,
    /// Marks packets that `KUBE-FIREWALL` drops, until 1.25.
    MarkDrop,
}

impl RequiredChain {
    const ALL: [Self; 3] = [Self::MarkMasquerade, Self::Postrouting, Self::MarkDrop];

    pub const fn name(self) -> &'static str {
        match self {
            Self::MarkMasquerade => KUBE_MARK_MASQ,
            Self::Postrouting => KUBE_POSTROUTING,
            Self::MarkDrop => KUBE_MARK_DROP,
        }
    }

    /// Returns the chain that rules of Services jump to if they depend on this one.
    pub const fn marks_in(self) -> &'static str {
        match self {
            Self::MarkMasquerade | Self::Postrouting => KUBE_MARK_MASQ,
            Self::MarkDrop => KUBE_MARK_DROP,
        }
    }

    /// Reports whether a rule is the one for which the chain exists.
    fn is_effect(self, rule: &Rule) -> bool {
        match (self, &rule.target) {
            _ if rule.is_unparsed() => true,
            (Self::MarkMasquerade | Self::MarkDrop, Some(Target::Mark(_)))
            | (Self::Postrouting, Some(Target::Masquerade { .. })) => true,
            (Self::Postrouting, Some(Target::Other(target))) => {
                matches!(&*target.name, "MASQUERADE" | "SNAT")
            }
            _ => false,
        }
    }
}

/// Part of a ruleset that packets depend on, and that a node lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RulesetGap {
    /// No such jump, directly or through third-party chains.
    Jump(RequiredJump),
    NoChain(RequiredChain),
    /// The chain has no rule with the effect for which it exists.
    NoEffect(RequiredChain),
}

impl RulesetGap {
    /// Reports whether it concerns marks of packets, and not where they are sent.
    pub const fn concerns_marks(self) -> bool {
        !matches!(
            self,
            Self::Jump(RequiredJump::Prerouting | RequiredJump::Output | RequiredJump::NodePorts)
        )
    }

    pub const fn consequence(self) -> &'static str {
        match self {
            Self::Jump(RequiredJump::Prerouting) => {
                "Services are unreachable from Pods and from outside"
            }
            Self::Jump(RequiredJump::Output) => {
                "Services are unreachable from processes on this node"
            }
            Self::Jump(RequiredJump::NodePorts) => {
                "NodePorts are unreachable; with --nodeport-addresses, the node may have no such \
                 address"
            }
            Self::Jump(RequiredJump::Postrouting)
            | Self::NoChain(RequiredChain::MarkMasquerade | RequiredChain::Postrouting)
            | Self::NoEffect(RequiredChain::MarkMasquerade | RequiredChain::Postrouting) => {
                "packets that need masquerading keep their source address, and replies may be lost"
            }
            Self::NoChain(RequiredChain::MarkDrop) | Self::NoEffect(RequiredChain::MarkDrop) => {
                "packets that should be dropped pass, such as those outside of \
                 loadBalancerSourceRanges"
            }
        }
    }
}

impl fmt::Display for RulesetGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jump(jump) => write!(f, "no jump from `{}` to `{}`", jump.from(), jump.to()),
            Self::NoChain(chain) => write!(f, "no chain `{}`", chain.name()),
            Self::NoEffect(chain @ RequiredChain::Postrouting) => {
                write!(f, "no rule in `{}` masquerades", chain.name())
            }
            Self::NoEffect(chain) => write!(f, "no rule in `{}` sets the mark", chain.name()),
        }
    }
}

/// Source of a ruleset, which decides whether jumps from built-in chains and fixed chains are
/// expected in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RulesetSource {
    /// Listing of the kernel's rules, with jumps from built-in chains.
    Kernel,
    /// Payload of a restore. Jumps from built-in chains are not part of it.
    #[default]
    Payload,
}

impl RulesetSource {
    /// Recognizes the source of a text: a listing has the policies of built-in chains or the header
    /// of the save program; a payload has neither.
    pub fn of_text(text: &str) -> Self {
        let has_policy = |line: &str| {
            let mut words = line.split_whitespace();
            let is_chain = words.next().is_some_and(|word| word.starts_with(':'));
            is_chain && words.next().is_some_and(|policy| policy != "-")
        };
        let is_header = |line: &str| line.starts_with("# Generated by ip");
        if text.lines().any(|line| has_policy(line) || is_header(line)) {
            Self::Kernel
        } else {
            Self::Payload
        }
    }
}

impl Catalog {
    /// Marks frontends as unreachable that no jump leads to from outside, and returns what is
    /// missing of the jumps and fixed chains that Services depend on.
    pub fn mark_unreachable(&mut self, rules: &RuleSet, source: RulesetSource) -> Vec<RulesetGap> {
        let gaps = self.gaps(rules, source);
        let jumps = gaps.iter().filter_map(|gap| match gap {
            RulesetGap::Jump(jump) => Some(*jump),
            RulesetGap::NoChain(_) | RulesetGap::NoEffect(_) => None,
        });
        for jump in jumps {
            let frontends = self.ports.values_mut().flat_map(|view| &mut view.frontends);
            let behind = frontends.filter(|one| one.chain.is_some() && jump.leads_to(one.kind));
            for frontend in behind {
                for origin in jump.origins() {
                    frontend.cut_off(*origin);
                }
            }
        }
        gaps
    }

    /// Returns what is missing of the jumps and fixed chains that Services depend on.
    pub fn gaps(&self, rules: &RuleSet, source: RulesetSource) -> Vec<RulesetGap> {
        let jumps = RequiredJump::ALL.into_iter().filter(|jump| {
            let is_expected = source == RulesetSource::Kernel || *jump == RequiredJump::NodePorts;
            let is_needed = self.served_kinds().any(|kind| jump.leads_to(kind))
                || (*jump == RequiredJump::Postrouting && is_masquerading(rules));
            is_expected && is_needed && !has_path(rules, jump.from(), jump.to())
        });
        let mut gaps: Vec<RulesetGap> = jumps.map(RulesetGap::Jump).collect();
        if source == RulesetSource::Kernel {
            let chains = RequiredChain::ALL.into_iter();
            gaps.extend(chains.filter_map(|chain| chain_gap(rules, chain)));
        }
        gaps
    }

    /// Returns the kinds of all frontends with a chain.
    fn served_kinds(&self) -> impl Iterator<Item = FrontendKind> {
        let frontends = self.ports.values().flat_map(|view| &view.frontends);
        let with_chain = frontends.filter(|frontend| frontend.chain.is_some());
        with_chain.map(|frontend| frontend.kind)
    }
}

/// Reports whether a chain masquerades, so that a jump to it is missed.
fn is_masquerading(rules: &RuleSet) -> bool {
    let chain = RequiredChain::Postrouting;
    rules.is_referenced(Table::Nat, chain.marks_in()) && chain_gap(rules, chain).is_none()
}

fn chain_gap(rules: &RuleSet, chain: RequiredChain) -> Option<RulesetGap> {
    if !rules.is_referenced(Table::Nat, chain.marks_in()) {
        return None;
    }
    let Some(found) = rules.chain(Table::Nat, chain.name()) else {
        return Some(RulesetGap::NoChain(chain));
    };
    let mut rules = found.rules.iter();
    (!rules.any(|rule| chain.is_effect(rule))).then_some(RulesetGap::NoEffect(chain))
}

/// Mode of a proxy, as far as rules of iptables show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ProxyMode {
    /// Services are rules of iptables.
    Iptables,
    /// Services are virtual servers of IPVS; rules of iptables only masquerade and filter.
    Ipvs,
}

impl ProxyMode {
    /// Returns the mode; `None` if no chain is a proxy's.
    pub(crate) fn of(rules: &RuleSet) -> Option<Self> {
        let mut ipvs = IPVS_CHAINS.into_iter();
        if ipvs.any(|name| rules.chain(Table::Nat, name).is_some()) {
            return Some(Self::Ipvs);
        }
        let mut tables = [Table::Filter, Table::Nat].into_iter();
        tables
            .any(|table| {
                rules
                    .chains(table)
                    .any(|(name, _)| is_proxy_chain(table, name))
            })
            .then_some(Self::Iptables)
    }
}
