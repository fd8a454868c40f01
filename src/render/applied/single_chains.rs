//! Compares single chains in the kernel with the applied ones, and corrects the applied state where
//! they differ: the next partial payload then restores missing rules and deletes surplus ones.
//!
//! Kept separate from the comparison of [whole tables](super::whole_tables) because a change of
//! one chain by another program is no reason to read all chains.

use std::collections::{BTreeMap, BTreeSet};

use super::live::{LiveRule, LiveRules};
use super::state::{AppliedService, AppliedState, leftover_service};
use super::unmatched_rules::{UnmatchedRules, are_in_order, spec};
use crate::model::ServiceName;
use crate::render::service::{DispatchKey, DispatchRule, ServiceTotals};
use crate::rules::{RulesDigest, Table};
use crate::ruleset::{DispatchChain, DispatchDestination, ServiceChain, tree_of};

/// Difference between a dispatch chain in the kernel and the applied state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchDrift {
    /// Services that are dirty because of the difference, the leftover Service for surplus rules.
    /// None, if the chain is written whole.
    pub services: BTreeSet<ServiceName>,
    /// Number of applied rules that are missing, with all jumps to `KUBE-NODEPORTS` if they are not
    /// the last rules. Of a root or a tree chain only these jumps are counted.
    pub missing: usize,
    /// Number of rules of a flat chain that were not applied, or that it has more than once.
    pub surplus: usize,
    /// The next payload writes the chain whole.
    pub needs_rewrite: bool,
    /// Tree chain that no rule of the proxy references; the next payload deletes it.
    pub is_unreferenced: bool,
}

impl DispatchDrift {
    /// Reports whether the chain holds the applied rules and no others.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Repair of a dispatch chain that differs from the applied state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchRepair {
    /// Single rules are inserted and deleted, which costs little in a large cluster. It fails if a
    /// second proxy on the node repairs the same chain at the same moment: both insert a missing
    /// rule, so that the kernel has it twice, then both delete one of the two, and none is left.
    Rules,
    /// The chain is written whole: the result is the same if a second proxy does it as well.
    Chain,
}

impl AppliedState {
    /// Reports whether this is a dispatch chain or a tree chain, by its name alone.
    pub fn is_dispatch_or_tree(table: Table, chain: &str) -> bool {
        DispatchChain::find(table, chain).is_some() || tree_of(table, chain).is_some()
    }

    /// Returns the tables and names of all dispatch chains and of the recorded tree chains,
    /// whether the kernel still has them or not.
    pub fn dispatch_and_tree_chains(&self) -> impl Iterator<Item = (Table, Box<str>)> {
        let all = DispatchChain::ALL.into_iter();
        let tree_chains = self.tree_chains();
        let tree_chains = tree_chains.map(|(table, name)| (table, name.into()));
        all.map(|chain| (chain.table(), chain.name().into()))
            .chain(tree_chains)
    }

    /// Returns those of these chains that are recorded Service chains.
    pub fn recorded_among(&self, chains: &BTreeSet<Box<str>>) -> BTreeSet<Box<str>> {
        if chains.is_empty() {
            return BTreeSet::new();
        }
        let named: BTreeMap<ServiceChain, &str> = chains
            .iter()
            .filter_map(|chain| Some((ServiceChain::parse(chain)?, &**chain)))
            .collect();
        let recorded = self.chains().filter_map(|chain| named.get(&chain));
        recorded.map(|chain| Box::from(*chain)).collect()
    }

    /// Records what these Service chains hold in the kernel, and returns those that differed from
    /// the record. `listing` is what `-S CHAIN` printed of each; `None` if they could not be
    /// listed, and then all of them differ, and are unknown.
    ///
    /// A chain that differed is written as soon as its Service is dirty, unless it holds the
    /// desired rules by then.
    pub fn observe_chains(
        &mut self,
        chains: &BTreeSet<Box<str>>,
        listing: Option<&str>,
    ) -> Vec<(ServiceName, ServiceChain)> {
        let chains = chains.iter().filter_map(|chain| ServiceChain::parse(chain));
        let chains: BTreeSet<ServiceChain> = chains.collect();
        let live = listing.map(|listing| LiveRules::of_listing(Table::Nat, listing));
        let live = live.unwrap_or_default().chains;
        let mut differing = Vec::new();
        for (name, service) in &mut self.services {
            let recorded = service.chains.iter_mut();
            for recorded in recorded.filter(|recorded| chains.contains(&recorded.chain)) {
                let found = live.get(&recorded.chain).copied();
                let found = found.unwrap_or(RulesDigest::UNKNOWN);
                if !found.is_known() || found != recorded.digest {
                    recorded.digest = found;
                    differing.push((name.clone(), recorded.chain));
                }
            }
        }
        differing
    }

    /// Forgets the rules of the chains of one Service, if any that is `eligible` has chains, and
    /// returns it: the next partial payload for it writes these chains.
    pub fn forget_chains_of_one(
        &mut self,
        eligible: impl Fn(&ServiceName) -> bool,
    ) -> Option<ServiceName> {
        let mut services = self.services.iter_mut();
        let (name, applied) =
            services.find(|(name, applied)| !applied.chains.is_empty() && eligible(name))?;
        for recorded in &mut applied.chains {
            recorded.digest = RulesDigest::UNKNOWN;
        }
        Some(name.clone())
    }

    /// Marks a dispatch chain or a tree chain, for example a missing one: the next partial payload
    /// writes it whole. Returns whether the proxy has a chain of this name.
    pub fn mark_for_rewrite(&mut self, table: Table, chain: &str) -> bool {
        let root = DispatchChain::find(table, chain);
        let Some(dispatch) = root.or_else(|| tree_of(table, chain)) else {
            return false;
        };
        match self.trees.get_mut(&dispatch) {
            Some(tree) => tree.mark_for_rewrite(chain),
            None if root.is_some() => {
                self.chains_to_rewrite.insert(dispatch);
                true
            }
            None => false,
        }
    }

    /// Compares a root or a tree chain with its listing, as `-S CHAIN` prints it. One that differs
    /// is marked for a rewrite, or recorded to be deleted if nothing references it.
    fn verify_tree_chain(
        &mut self,
        dispatch: DispatchChain,
        chain: &str,
        listing: &str,
    ) -> DispatchDrift {
        let mut lines: String = listing
            .lines()
            .filter(|line| line.starts_with("-A "))
            .flat_map(|line| [line, "\n"])
            .collect();
        let mut drift = DispatchDrift::default();
        let Some(desired) = self.desired_in_tree(dispatch, chain) else {
            let unused = (dispatch.table(), chain.into());
            self.unused_tree_chains.insert(unused);
            drift.is_unreferenced = true;
            return drift;
        };
        if chain == DispatchChain::NatServices.name() && dispatch == DispatchChain::NatServices {
            let mut rules = LiveRules::read_dispatch_rules(dispatch, &lines);
            if remove_node_ports_jumps(&mut rules, &self.node_ports_jumps) {
                lines = lines_of(chain, &rules);
            } else {
                drift.missing += self.node_ports_jumps.len();
            }
        }
        let table = dispatch.table();
        let live = RulesDigest::of_lines(&lines);
        if drift.missing > 0 || !live.is_known() || live != RulesDigest::of_lines(&desired) {
            drift.needs_rewrite = true;
            self.mark_for_rewrite(table, chain);
        } else if let Some(tree) = self.trees.get_mut(&dispatch) {
            tree.note_repaired(chain, &desired);
        }
        drift
    }

    /// Compares a dispatch chain or a tree chain with its listing, as `-S CHAIN` prints it, and
    /// corrects the applied state, so that the next partial payload repairs what differs:
    ///
    /// - A flat chain whose known rules are in order, under [`DispatchRepair::Rules`]: missing
    ///   rules are removed from the applied state, and surplus ones are added to it under the
    ///   leftover Service. The next payload inserts the former and deletes the latter.
    /// - A flat chain whose rules are in the wrong order, or that differs under
    ///   [`DispatchRepair::Chain`], and a chain of a tree: it is marked for a rewrite.
    /// - A tree chain that nothing references: it is recorded to be deleted.
    ///
    /// If the jumps to `KUBE-NODEPORTS` are not the last rules of a flat `KUBE-SERVICES` that is
    /// not written whole, they are also removed from the applied state. A chain that does not
    /// differ is not marked for a rewrite anymore.
    pub fn verify_dispatch_chain(
        &mut self,
        (table, chain): (Table, &str),
        listing: &str,
        repair: DispatchRepair,
    ) -> DispatchDrift {
        if let Some(dispatch) = tree_of(table, chain) {
            return self.verify_tree_chain(dispatch, chain, listing);
        }
        let Some(dispatch) = DispatchChain::find(table, chain) else {
            return DispatchDrift::default();
        };
        if self.trees.contains_key(&dispatch) {
            return self.verify_tree_chain(dispatch, chain, listing);
        }
        let mut rules = LiveRules::read_dispatch_rules(dispatch, listing);
        let mut drift = DispatchDrift::default();
        let lacks_jumps = dispatch == DispatchChain::NatServices
            && !remove_node_ports_jumps(&mut rules, &self.node_ports_jumps);
        if lacks_jumps {
            drift.missing += self.node_ports_jumps.len();
        }
        let mut unmatched = UnmatchedRules::new(rules);
        let mut incomplete: BTreeMap<ServiceName, AppliedService> = BTreeMap::new();
        for (name, service) in &self.services {
            let MatchedRules { kept, is_in_order } =
                MatchedRules::of(service, dispatch, &mut unmatched);
            let missing = service.dispatch.len() - kept.len();
            drift.missing += missing;
            drift.needs_rewrite |= !is_in_order;
            if missing > 0 {
                let kept = AppliedService::new(service.chains.to_vec(), kept, service.totals);
                incomplete.insert(name.clone(), kept);
            }
        }
        let surplus: Vec<_> = unmatched.into_unmatched().collect();
        drift.surplus = surplus.len();
        drift.needs_rewrite |= repair == DispatchRepair::Chain && !drift.is_empty();
        if drift.needs_rewrite {
            self.chains_to_rewrite.insert(dispatch);
            return drift;
        }
        if drift.is_empty() {
            // A second proxy has repaired it, or an earlier comparison has recorded the difference.
            self.chains_to_rewrite.remove(&dispatch);
        }
        if lacks_jumps {
            // Jumps in other positions are deleted like other surplus rules.
            self.node_ports_jumps.clear();
        }
        for (name, service) in incomplete {
            self.insert(&name, service);
            drift.services.insert(name);
        }
        if !surplus.is_empty() {
            let key = DispatchKey {
                chain: dispatch,
                port_index: None,
            };
            let rules = surplus.into_iter().map(|rule| DispatchRule {
                key,
                destination: DispatchDestination::SeveralOrUnknown,
                text: rule.text,
            });
            drift.services.insert(self.add_leftovers(rules.collect()));
        }
        drift
    }

    /// Records rules under the leftover Service, so that they are deleted. Returns its name.
    fn add_leftovers(&mut self, mut rules: Vec<DispatchRule>) -> ServiceName {
        let name = leftover_service();
        let before = self.services.get(&name).cloned().unwrap_or_default();
        rules.splice(0..0, before.dispatch);
        let service = AppliedService::new(before.chains.into(), rules, ServiceTotals::default());
        self.insert(&name, service);
        name
    }
}

/// Dispatch rules that one Service has in the kernel.
struct MatchedRules {
    /// Rules found in the compared chain, and all rules of other chains.
    kept: Vec<DispatchRule>,
    /// The rules of each group are in their order.
    is_in_order: bool,
}

impl MatchedRules {
    /// Matches the rules of one Service in a dispatch chain.
    fn of(
        service: &AppliedService,
        dispatch: DispatchChain,
        unmatched: &mut UnmatchedRules,
    ) -> Self {
        let mut kept = Vec::with_capacity(service.dispatch.len());
        let mut matched = Vec::new();
        for rule in &service.dispatch {
            if rule.key.chain != dispatch {
                kept.push(rule.clone());
            } else if let Some(at) = unmatched.take(&rule.text) {
                matched.push((at, rule));
                kept.push(rule.clone());
            }
        }
        Self {
            is_in_order: are_in_order(matched.iter().copied()),
            kept,
        }
    }
}

/// Removes the jumps to `KUBE-NODEPORTS` from the end of their chain; reports whether all of them
/// were found there, in this order. A jump in another position counts as a surplus rule.
pub(super) fn remove_node_ports_jumps(rules: &mut Vec<LiveRule>, jumps: &[Box<[u8]>]) -> bool {
    let Some(others) = rules.len().checked_sub(jumps.len()) else {
        return false;
    };
    let last = rules.get(others..).unwrap_or_default();
    for (rule, jump) in last.iter().zip(jumps) {
        if !rule.digest.is_known() || rule.digest != RulesDigest::of_rule(spec(jump)) {
            return false;
        }
    }
    rules.truncate(others);
    true
}

/// Returns the rules of one chain as lines with `-A CHAIN`.
pub(super) fn lines_of(chain: &str, rules: &[LiveRule]) -> String {
    let rules = rules.iter().map(|rule| String::from_utf8_lossy(&rule.text));
    rules.fold(String::new(), |lines, rule| lines + "-A " + chain + &rule)
}
