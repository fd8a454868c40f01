//! Checks that jumps lead from the built-in chains to frontends, and from frontends to endpoints.
//!
//! A service port with complete chains is unreachable if a jump to the dispatch chains is missing.
//! These jumps belong to no service port, and are lost when the chain that they are in is flushed.

use std::collections::BTreeSet;

use super::Catalog;
use super::view::{FrontendDisposition, FrontendKind, is_service_chain};
use crate::rules::{Match, Rule, RuleSet, Table, Target};

/// A jump of the nat table that frontends depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequiredJump {
    /// Leads traffic from Pods and from outside to the frontends.
    Prerouting,
    /// Leads traffic from processes of the node to the frontends.
    Output,
    /// Leads traffic to the node's addresses to NodePorts.
    NodePorts,
}

impl RequiredJump {
    const ALL: [Self; 3] = [Self::Prerouting, Self::Output, Self::NodePorts];

    /// Returns the chain that holds the jump.
    pub const fn from(self) -> &'static str {
        match self {
            Self::Prerouting => "PREROUTING",
            Self::Output => "OUTPUT",
            Self::NodePorts => "KUBE-SERVICES",
        }
    }

    /// Returns the target of the jump.
    pub const fn to(self) -> &'static str {
        match self {
            Self::Prerouting | Self::Output => "KUBE-SERVICES",
            Self::NodePorts => "KUBE-NODEPORTS",
        }
    }

    const fn leads_to(self, kind: FrontendKind) -> bool {
        match self {
            Self::Prerouting | Self::Output => true,
            Self::NodePorts => matches!(kind, FrontendKind::NodePort),
        }
    }
}

/// Source of a ruleset, which decides whether jumps from built-in chains are expected in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulesetSource {
    /// Listing of the kernel's rules, with jumps from built-in chains.
    Kernel,
    /// Payload of a restore. Jumps from built-in chains are not part of it.
    Payload,
}

impl RulesetSource {
    /// Guesses the source: a node has rules in built-in chains, if only for masquerading.
    pub fn guess(rules: &RuleSet) -> Self {
        let built_in = Table::Nat.built_in_chains().iter();
        let mut built_in = built_in.filter_map(|name| rules.chain(Table::Nat, name));
        if built_in.any(|chain| !chain.rules.is_empty()) {
            Self::Kernel
        } else {
            Self::Payload
        }
    }
}

impl Catalog {
    /// Marks frontends as unreachable that no jump leads to from outside, and returns the missing
    /// jumps that any frontend depends on.
    pub fn mark_unreachable(
        &mut self,
        rules: &RuleSet,
        source: RulesetSource,
    ) -> Vec<RequiredJump> {
        let is_expected = |jump: &RequiredJump| {
            source == RulesetSource::Kernel || *jump == RequiredJump::NodePorts
        };
        let is_needed = |jump: &RequiredJump| self.served_kinds().any(|kind| jump.leads_to(kind));
        let is_missing = |jump: &RequiredJump| !has_path(rules, jump.from(), jump.to());
        let jumps = RequiredJump::ALL.into_iter().filter(is_expected);
        let missing: Vec<_> = jumps.filter(is_needed).filter(is_missing).collect();
        for frontend in self.ports.values_mut().flat_map(|view| &mut view.frontends) {
            // The disposition is that of traffic from outside.
            let mut from_outside = missing.iter().filter(|jump| **jump != RequiredJump::Output);
            let is_served = frontend.disposition == FrontendDisposition::Served;
            if is_served
                && frontend.chain.is_some()
                && from_outside.any(|jump| jump.leads_to(frontend.kind))
            {
                frontend.disposition = FrontendDisposition::Unreachable;
            }
        }
        missing
    }

    /// Returns the kinds of all frontends with a chain.
    fn served_kinds(&self) -> impl Iterator<Item = FrontendKind> {
        let frontends = self.ports.values().flat_map(|view| &view.frontends);
        let with_chain = frontends.filter(|frontend| frontend.chain.is_some());
        with_chain.map(|frontend| frontend.kind)
    }
}

/// Reports whether jumps lead from one chain to another, directly or through third-party chains.
fn has_path(rules: &RuleSet, from: &str, to: &str) -> bool {
    let mut waiting = vec![from];
    let mut seen = BTreeSet::from([from]);
    while let Some(name) = waiting.pop() {
        if name == to {
            return true;
        }
        let chain = rules.chain(Table::Nat, name).into_iter();
        let targets = chain
            .flat_map(|chain| &chain.rules)
            .filter_map(Rule::target_chain);
        // Chains of a service port never lead back to a dispatch chain.
        let next = targets.filter(|target| !is_service_chain(target));
        waiting.extend(next.filter(|target| seen.insert(target)));
    }
    false
}

/// Reports whether packets that enter `chain` of the nat table can reach a DNAT rule. Without
/// recursion: third-party chains may be nested ten thousand deep.
pub(super) fn leads_to_endpoint(rules: &RuleSet, chain: &str) -> bool {
    let mut waiting = vec![chain];
    let mut seen = BTreeSet::from([chain]);
    while let Some(name) = waiting.pop() {
        let chain = rules.chain(Table::Nat, name).into_iter();
        for rule in chain.flat_map(|chain| &chain.rules) {
            match &rule.target {
                Some(Target::Dnat { .. }) => return true,
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
