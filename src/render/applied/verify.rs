//! Corrects the applied state where the kernel holds other rules, chain by chain.
//!
//! [`adopt`](super::adopt) compares whole tables; here one chain is read, because a program that
//! changes one chain should not cost the reading of all. The next partial payload then brings what
//! is missing and deletes third-party rules.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::live::{LiveRule, LiveRules, digest, holds};
use super::state::{AppliedService, AppliedState, DispatchRule, RecordedChain};
use crate::model::{ServiceName, Services};
use crate::render::options::{Comments, Setting};
use crate::render::service::{self, Digest, DispatchKey, ServiceRules, ServiceTotals};
use crate::rules::Table;
use crate::ruleset::{DispatchChain, ServiceChain};

/// Difference between a dispatch chain in the kernel and the applied state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchDrift {
    /// Services that the next partial payload has to name.
    pub services: BTreeSet<ServiceName>,
    /// Number of applied rules that are missing.
    pub missing: usize,
    /// Number of third-party rules.
    pub foreign: usize,
    /// The next payload writes the chain whole.
    pub is_rewritten: bool,
}

impl DispatchDrift {
    /// Reports whether the chain holds the applied rules and no others.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Repair of a dispatch chain that differs from the applied state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchRepair {
    /// Single rules are inserted and deleted, which costs little in a large cluster. Two programs
    /// that do so at the same moment add a rule twice, and then delete both.
    Rules,
    /// The chain is written whole: the result is the same when two programs do it.
    Chain,
}

impl AppliedState {
    /// Reports whether Services have rules in this chain.
    pub fn is_dispatch(table: Table, chain: &str) -> bool {
        DispatchChain::find(table, chain).is_some()
    }

    /// Returns all chains in which Services have rules, with their tables.
    pub fn dispatch_chains() -> impl Iterator<Item = (Table, &'static str)> {
        let all = DispatchChain::ALL.into_iter();
        all.map(|chain| (chain.table(), chain.name()))
    }

    /// Returns those of these chains that applied Services have.
    pub fn recorded(&self, chains: &BTreeSet<Box<str>>) -> BTreeSet<Box<str>> {
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

    /// Compares Service chains with their listing, as `-S CHAIN` prints it, and returns those that
    /// hold other rules; without a listing, all of them. The next partial payload that names their
    /// Services writes them.
    pub fn verify_chains(
        &mut self,
        chains: &BTreeSet<Box<str>>,
        listing: Option<&str>,
        services: &dyn Services,
        setting: Setting<'_>,
    ) -> Vec<(ServiceName, ServiceChain)> {
        let chains = chains.iter().filter_map(|chain| ServiceChain::parse(chain));
        let chains: BTreeSet<ServiceChain> = chains.collect();
        let live = listing.map(|listing| LiveRules::of_listing(Table::Nat, listing));
        let mut differing = Vec::new();
        for (name, applied) in &mut self.services {
            let recorded = applied.chains.iter_mut();
            let recorded: Vec<&mut RecordedChain> = recorded
                .filter(|recorded| chains.contains(&recorded.chain))
                .collect();
            if recorded.is_empty() {
                continue;
            }
            let same = match (&live, services.get(name)) {
                (Some(live), Some(state)) => same_chains(live, &recorded, |rules, comments| {
                    service::render(rules, name, state, setting, comments);
                }),
                _ => BTreeMap::new(),
            };
            for recorded in recorded {
                recorded.digest = same.get(&recorded.chain).copied().unwrap_or(UNKNOWN);
                if recorded.digest == UNKNOWN {
                    differing.push((name.clone(), recorded.chain));
                }
            }
        }
        differing
    }

    /// Notes that a dispatch chain has to be written whole, for example because it is missing.
    pub fn rewrite_dispatch(&mut self, table: Table, chain: &str) {
        self.rewrite.extend(DispatchChain::find(table, chain));
    }

    /// Compares a dispatch chain with its listing, as `-S CHAIN` prints it, and records the rules
    /// that the kernel holds.
    pub fn verify_dispatch(
        &mut self,
        (table, chain): (Table, &str),
        listing: &str,
        repair: DispatchRepair,
    ) -> DispatchDrift {
        let Some(dispatch) = DispatchChain::find(table, chain) else {
            return DispatchDrift::default();
        };
        let mut rules = LiveRules::of_dispatch(dispatch, listing);
        let mut drift = DispatchDrift::default();
        if dispatch == DispatchChain::NatServices
            && !remove_node_ports_jumps(&mut rules, &self.node_ports_jumps)
        {
            // Those in other positions are deleted like third-party rules.
            drift.missing += self.node_ports_jumps.len();
            self.node_ports_jumps.clear();
        }
        let mut unmatched = UnmatchedRules::new(rules);
        let mut incomplete: BTreeMap<ServiceName, AppliedService> = BTreeMap::new();
        for (name, service) in &self.services {
            let MatchedRules { kept, is_in_order } =
                MatchedRules::of(service, dispatch, &mut unmatched);
            let missing = service.dispatch.len() - kept.len();
            drift.missing += missing;
            drift.is_rewritten |= !is_in_order;
            if missing > 0 {
                let kept = AppliedService::new(service.chains.to_vec(), kept, service.totals);
                incomplete.insert(name.clone(), kept);
            }
        }
        let foreign: Vec<_> = unmatched.rest().collect();
        drift.foreign = foreign.len();
        drift.is_rewritten |= repair == DispatchRepair::Chain && !drift.is_none();
        if drift.is_rewritten {
            self.rewrite.insert(dispatch);
            return drift;
        }
        for (name, service) in incomplete {
            self.insert(&name, service);
            drift.services.insert(name);
        }
        if !foreign.is_empty() {
            let key = DispatchKey {
                chain: dispatch,
                port: 0,
            };
            let rules = foreign.into_iter().map(|rule| (key, rule.text));
            drift.services.insert(self.add_unowned(rules.collect()));
        }
        drift
    }

    /// Records rules of no Service, so that the next payload deletes them. Returns the name under
    /// which they are recorded.
    fn add_unowned(&mut self, mut rules: Vec<DispatchRule>) -> ServiceName {
        let unowned = unowned();
        let before = self.services.get(&unowned).cloned().unwrap_or_default();
        rules.splice(0..0, before.dispatch);
        let service = AppliedService::new(before.chains.into(), rules, ServiceTotals::default());
        self.insert(&unowned, service);
        unowned
    }
}

/// Digest of a chain with unknown rules: no chain that was rendered has it.
const UNKNOWN: Digest = 0;

/// Returns the chains that hold the rendered rules in the kernel, with the digests of these. The
/// kernel spells rules differently, so they are rendered once more. A chain that differed from the
/// applied state before, and was repaired by another program, is among them.
fn same_chains(
    live: &LiveRules,
    recorded: &[&mut RecordedChain],
    render: impl Fn(&mut ServiceRules, Comments),
) -> BTreeMap<ServiceChain, Digest> {
    let mut same = BTreeMap::new();
    let mut rules = ServiceRules::default();
    for comments in [Comments::Everywhere, Comments::NotOnEndpoints] {
        render(&mut rules, comments);
        for entry in rules.chains() {
            let mut chains = recorded.iter().map(|recorded| recorded.chain);
            let is_recorded = chains.any(|chain| chain == entry.chain);
            if is_recorded && holds(&live.chains, entry.chain, rules.chain_text(entry)) {
                same.insert(entry.chain, entry.digest);
            }
        }
        if same.len() == recorded.len() {
            break;
        }
    }
    same
}

/// Dispatch rules that one Service has in the kernel.
struct MatchedRules {
    /// Rules found in the compared chain, and all rules of other chains.
    kept: Vec<DispatchRule>,
    /// Rules of one port stand in their order.
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
        let mut last: Option<(DispatchKey, usize)> = None;
        let mut is_in_order = true;
        for (key, rule) in &service.dispatch {
            if key.chain != dispatch {
                kept.push((*key, rule.clone()));
            } else if let Some(at) = unmatched.take(rule) {
                is_in_order &= last.is_none_or(|(of, before)| of != *key || before < at);
                last = Some((*key, at));
                kept.push((*key, rule.clone()));
            }
        }
        Self { kept, is_in_order }
    }
}

/// Rules of a dispatch chain in the kernel that no Service has had so far.
pub(super) struct UnmatchedRules {
    rules: Vec<Option<LiveRule>>,
    /// Positions of rules by digest. The last one is matched first, because a deletion takes the
    /// first of its kind.
    positions: HashMap<Digest, Vec<usize>>,
}

impl UnmatchedRules {
    /// Takes all rules of a chain, in their order.
    pub(super) fn new(rules: Vec<Option<LiveRule>>) -> Self {
        let mut positions: HashMap<Digest, Vec<usize>> = HashMap::new();
        for (at, rule) in rules.iter().enumerate() {
            if let Some(digest) = rule.as_ref().and_then(|rule| rule.digest) {
                positions.entry(digest).or_default().push(at);
            }
        }
        Self { rules, positions }
    }

    /// Removes an equal rule; returns its position, if the chain has one.
    pub(super) fn take(&mut self, rule: &[u8]) -> Option<usize> {
        let at = self.positions.get_mut(&digest([spec(rule)])?)?.pop()?;
        self.rules.get_mut(at)?.take()?;
        Some(at)
    }

    /// Returns the rules that no Service has.
    pub(super) fn rest(self) -> impl Iterator<Item = LiveRule> {
        self.rules.into_iter().flatten()
    }
}

/// Returns the name under which rules and chains of no Service are recorded.
pub(super) fn unowned() -> ServiceName {
    ServiceName::new("", "")
}

/// Removes the jumps to `KUBE-NODEPORTS` from the end of their chain; reports whether all of them
/// were there. A jump in another position counts as a third-party rule, because a deletion takes
/// the first of its kind.
pub(super) fn remove_node_ports_jumps(
    rules: &mut Vec<Option<LiveRule>>,
    jumps: &[Box<[u8]>],
) -> bool {
    let Some(others) = rules.len().checked_sub(jumps.len()) else {
        return false;
    };
    let last = rules.get(others..).unwrap_or_default().iter().flatten();
    for (rule, jump) in last.zip(jumps) {
        if rule.digest.is_none() || rule.digest != digest([spec(jump)]) {
            return false;
        }
    }
    rules.truncate(others);
    true
}

/// Returns a dispatch rule as rules are parsed: without blanks and newline around it.
fn spec(rule: &[u8]) -> &str {
    str::from_utf8(rule).unwrap_or_default().trim()
}
