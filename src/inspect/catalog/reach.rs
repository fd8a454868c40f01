//! Finds the frontends and chains that packets do not reach, and the jumps and fixed chains that
//! Services depend on and a ruleset lacks.
//!
//! A rule that cannot be read may be the one that leads on: nothing is reported as missing if such
//! a rule is on the way. Entry jumps and fixed chains belong to no service port, and are lost when
//! a chain is flushed.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use hashbrown::{HashMap, HashSet};

use super::Catalog;
use super::query::PortName;
use super::view::{FrontendConflict, FrontendKind, FrontendView, LoserRules, TrafficOrigin};
use crate::rules::{Match, Rule, RuleSet, Table, Target};
use crate::ruleset::{
    ChainKind, DispatchChain, IPVS_CHAINS, KUBE_MARK_DROP, KUBE_MARK_MASQ, KUBE_NODEPORTS,
    KUBE_POSTROUTING, KUBE_SERVICES, is_proxy_chain, is_service_chain, tree_of,
};

/// Reports whether jumps lead from one chain to another, directly or through third-party chains.
pub(super) fn has_path(rules: &RuleSet, from: &str, to: &str) -> bool {
    let mut waiting = vec![from];
    let mut seen = BTreeSet::from([from]);
    while let Some(name) = waiting.pop() {
        if name == to {
            return true;
        }
        let own = rules.rules_of(Table::Nat, name);
        if own.iter().any(Rule::is_unparsed) {
            return true;
        }
        let targets = own.iter().filter_map(Rule::target_chain);
        // Chains of a service port never lead back to a dispatch chain.
        let next = targets.filter(|target| !is_service_chain(target));
        waiting.extend(next.filter(|target| seen.insert(target)));
    }
    false
}

/// Reports whether packets of an origin that enter `chain` of the nat table can reach a DNAT rule.
/// Without recursion: third-party chains may be nested ten thousand deep.
pub(super) fn leads_to_endpoint(rules: &RuleSet, chain: &str, origin: TrafficOrigin) -> bool {
    let mut waiting = vec![chain];
    let mut seen = BTreeSet::from([chain]);
    while let Some(name) = waiting.pop() {
        let is_external = matches!(
            ChainKind::of(name),
            Some(ChainKind::External | ChainKind::RetiredExternal)
        );
        for rule in rules.rules_of(Table::Nat, name) {
            if is_external && is_for_others(rule, origin) {
                continue;
            }
            match &rule.target {
                _ if rule.is_unparsed() => return true,
                Some(Target::Dnat { .. }) => return true,
                Some(Target::Other(target)) if &*target.name == "DNAT" => return true,
                Some(Target::Jump(next) | Target::Goto(next)) if seen.insert(next) => {
                    waiting.push(next);
                }
                _ => {}
            }
            if is_final(rule) {
                break;
            }
        }
    }
    false
}

/// Reports whether a rule of a chain for external traffic is for other clients than those of an
/// origin. Policy Local has rules for Pods and for this node, to which it does not apply.
fn is_for_others(rule: &Rule, origin: TrafficOrigin) -> bool {
    let matches_node = |one: &Match| {
        matches!(
            one,
            Match::AddressType {
                source: Some(_),
                ..
            }
        )
    };
    rule.source.is_some()
        || rule.in_interface.is_some()
        || (origin == TrafficOrigin::Outside && rule.matches.iter().any(matches_node))
}

/// Reports whether no packet gets past a rule.
fn is_final(rule: &Rule) -> bool {
    let is_terminating = matches!(
        rule.target,
        Some(Target::Return | Target::Accept | Target::Drop | Target::Reject(_) | Target::Goto(_))
    );
    is_terminating && is_unconditional(rule)
}

fn is_unconditional(rule: &Rule) -> bool {
    let Rule {
        source,
        destination,
        in_interface,
        out_interface,
        protocol,
        matches,
        target: _,
    } = rule;
    let mut matches = matches.iter();
    source.is_none()
        && destination.is_none()
        && in_interface.is_none()
        && out_interface.is_none()
        && protocol.is_none()
        && matches.all(|one| matches!(one, Match::Comment(_)))
}

/// Returns the rules of a dispatch chain, and those of the chains of its tree in place of the first
/// jump to each.
pub(super) fn dispatch_rules(rules: &RuleSet, chain: DispatchChain) -> Vec<&Rule> {
    let table = chain.table();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut waiting = vec![rules.rules_of(table, chain.name()).iter()];
    while let Some(current) = waiting.last_mut() {
        let Some(rule) = current.next() else {
            waiting.pop();
            continue;
        };
        let inner = rule.target_chain();
        match inner.filter(|name| tree_of(table, name).is_some()) {
            Some(inner) if seen.insert(inner) => waiting.push(rules.rules_of(table, inner).iter()),
            _ => found.push(rule),
        }
    }
    found
}

/// Returns the service chains that no service port has and no other chain leads to. A rule that
/// cannot be read may lead to any of them. A chain to which a rule without a service port in its
/// comment leads is not stale either.
pub(super) fn stale_chains(catalog: &Catalog, rules: &RuleSet) -> Vec<Box<str>> {
    let mut unreadable = rules.unparsed_rules();
    if catalog.unknown.unreadable > 0 && unreadable.any(|(table, ..)| table == Table::Nat) {
        return Vec::new();
    }
    let views = catalog.ports.values();
    let mut owned = HashSet::with_capacity(views.clone().map(|view| view.chains.len()).sum());
    owned.extend(views.flat_map(|view| view.chains.iter().map(|name| &**name)));
    let reached = reached_chains(rules, &owned);
    let names = rules.unsorted_chains(Table::Nat).map(|(name, _)| name);
    let stale = names.filter(|name| is_service_chain(name) && !owned.contains(name));
    let stale = stale.filter(|name| !reached.contains(name));
    let mut stale: Vec<Box<str>> = stale.map(Box::from).collect();
    stale.sort_unstable();
    stale
}

/// Returns the chains of the nat table that are reached from chains of no service port, without the
/// `owned` ones: service chains that these lead to are owned as well.
fn reached_chains<'r>(rules: &'r RuleSet, owned: &HashSet<&str>) -> HashSet<&'r str> {
    let mut reached = HashSet::new();
    let others = rules.unsorted_chains(Table::Nat);
    let mut next: Vec<&str> = others
        .map(|(name, _)| name)
        .filter(|name| !is_service_chain(name))
        .collect();
    while let Some(name) = next.pop() {
        let targets = rules.rules_of(Table::Nat, name).iter();
        let targets = targets.filter_map(Rule::target_chain);
        let targets = targets.filter(|target| !owned.contains(target));
        next.extend(targets.filter(|target| reached.insert(*target)));
    }
    reached
}

/// Packets of a frontend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClaimedFrontend {
    ip: Option<IpAddr>,
    port: u16,
    protocol: Box<str>,
    /// Health checks have ports of their own, without DNAT.
    is_health_check: bool,
}

/// First owner of each frontend.
#[derive(Debug, Default)]
pub(super) struct Owners {
    first: HashMap<ClaimedFrontend, PortName>,
    shadowed: Vec<FrontendConflict>,
}

impl Owners {
    /// Adds a frontend of a service port, in the order in which packets meet the rules.
    pub(super) fn claim(&mut self, name: &PortName, frontend: &FrontendView) {
        let key = ClaimedFrontend {
            ip: frontend.ip,
            port: frontend.port,
            protocol: name.protocol.clone(),
            is_health_check: frontend.kind == FrontendKind::HealthCheck,
        };
        let owner = self.first.entry(key).or_insert_with(|| name.clone());
        let is_same = owner.namespace() == name.namespace() && owner.service() == name.service();
        if !is_same {
            let conflict = FrontendConflict {
                loser: name.clone(),
                kind: frontend.kind,
                ip: frontend.ip,
                port: frontend.port,
                owner: format!("{}/{}", owner.namespace(), owner.service()).into(),
                rules: LoserRules::Shadowed,
            };
            if !self.shadowed.contains(&conflict) {
                self.shadowed.push(conflict);
            }
        }
    }

    /// Returns the frontends that other Services have, in the order of the rules.
    pub(super) fn into_shadowed(self) -> Vec<FrontendConflict> {
        self.shadowed
    }
}

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
    /// missing of the jumps and fixed chains that Services depend on. `rules` are those that the
    /// catalog was read from.
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

    /// Returns what is missing of the jumps and fixed chains that Services depend on. `rules` are
    /// those that the catalog was read from.
    pub fn gaps(&self, rules: &RuleSet, source: RulesetSource) -> Vec<RulesetGap> {
        let jumps = RequiredJump::ALL.into_iter().filter(|jump| {
            let is_expected = source == RulesetSource::Kernel || *jump == RequiredJump::NodePorts;
            let is_needed = self.served_kinds().any(|kind| jump.leads_to(kind))
                || (*jump == RequiredJump::Postrouting && self.is_masquerading(rules));
            is_expected && is_needed && !has_path(rules, jump.from(), jump.to())
        });
        let mut gaps: Vec<RulesetGap> = jumps.map(RulesetGap::Jump).collect();
        if source == RulesetSource::Kernel {
            let chains = RequiredChain::ALL.into_iter();
            gaps.extend(chains.filter_map(|chain| self.chain_gap(rules, chain)));
        }
        gaps
    }

    fn served_kinds(&self) -> impl Iterator<Item = FrontendKind> {
        let frontends = self.ports.values().flat_map(|view| &view.frontends);
        let with_chain = frontends.filter(|frontend| frontend.chain.is_some());
        with_chain.map(|frontend| frontend.kind)
    }

    /// Reports whether a chain masquerades, so that a jump to it is missed.
    fn is_masquerading(&self, rules: &RuleSet) -> bool {
        let chain = RequiredChain::Postrouting;
        self.used_marks.contains(chain.marks_in()) && self.chain_gap(rules, chain).is_none()
    }

    fn chain_gap(&self, rules: &RuleSet, chain: RequiredChain) -> Option<RulesetGap> {
        if !self.used_marks.contains(chain.marks_in()) {
            return None;
        }
        let Some(found) = rules.chain(Table::Nat, chain.name()) else {
            return Some(RulesetGap::NoChain(chain));
        };
        let mut rules = found.rules.iter();
        (!rules.any(|rule| chain.is_effect(rule))).then_some(RulesetGap::NoEffect(chain))
    }
}

/// Returns the chains that mark packets, as far as a rule jumps to them.
pub(super) fn used_marks(rules: &RuleSet) -> BTreeSet<&'static str> {
    let mut marks = BTreeSet::from(RequiredChain::ALL.map(RequiredChain::marks_in));
    marks.retain(|chain| rules.is_referenced(Table::Nat, chain));
    marks
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
                    .unsorted_chains(table)
                    .any(|(name, _)| is_proxy_chain(table, name))
            })
            .then_some(Self::Iptables)
    }
}
