//! Corrects the ledger where the kernel holds other rules than it says, chain by chain.
//!
//! Kept separate from [`adopt`](super::adopt), which compares whole tables, because a program that
//! changes one chain should not cost the reading of all. The next partial payload then brings what
//! is missing and removes what is not ours.

use std::collections::{BTreeMap, BTreeSet};

use super::chain::ServiceChain;
use super::claims::{Claims, take_tail, unowned};
use super::found::{Found, holds};
use super::ledger::{Entry, Held, Ledger, PlacedRule};
use super::options::Comments;
use super::service::{self, Setting};
use super::sheet::{Digest, Dispatch, Place, Sheet};
use super::tally::Tally;
use crate::model::{ServiceName, Services};
use crate::rules::Table;

/// Difference between a shared chain and the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchDrift {
    /// Services that the next partial payload has to name.
    pub services: BTreeSet<ServiceName>,
    /// Rules of ours that are missing.
    pub missing: usize,
    /// Rules that are not ours.
    pub foreign: usize,
    /// The chain is written whole.
    pub is_rewritten: bool,
}

impl DispatchDrift {
    /// Reports whether the chain holds what it should.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Repair of a shared chain that holds other rules than it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchRepair {
    /// Single rules are appended and deleted, which costs little in a large cluster. Two programs
    /// that do so at the same moment append a rule twice, and then delete both.
    Rules,
    /// The chain is written whole: the result is the same when two programs do it.
    Chain,
}

impl Ledger {
    /// Reports whether Services have rules in this chain.
    pub fn is_dispatch(table: Table, chain: &str) -> bool {
        dispatch(table, chain).is_some()
    }

    /// All chains in which Services have rules.
    pub fn dispatch_chains() -> impl Iterator<Item = (Table, &'static str)> {
        let all = Dispatch::ALL.into_iter();
        all.map(|to| (to.table(), to.chain()))
    }

    /// Returns those of these chains that Services have.
    pub fn held(&self, chains: &BTreeSet<Box<str>>) -> BTreeSet<Box<str>> {
        if chains.is_empty() {
            return BTreeSet::new();
        }
        let named: BTreeMap<ServiceChain, &str> = chains
            .iter()
            .filter_map(|chain| Some((ServiceChain::parse(chain)?, &**chain)))
            .collect();
        let held = self.chains().filter_map(|chain| named.get(&chain));
        held.map(|chain| Box::from(*chain)).collect()
    }

    /// Compares chains of Services with their listing, as `-S CHAIN` prints it, and returns those
    /// that hold other rules; without a listing, all of them. The next partial payload that names
    /// their Services writes them.
    pub fn verify_chains(
        &mut self,
        chains: &BTreeSet<Box<str>>,
        listing: Option<&str>,
        services: &dyn Services,
        setting: Setting<'_>,
    ) -> Vec<(ServiceName, ServiceChain)> {
        let chains = chains.iter().filter_map(|chain| ServiceChain::parse(chain));
        let chains: BTreeSet<ServiceChain> = chains.collect();
        let found = listing.map(|listing| Found::of_listing(Table::Nat, listing));
        let mut differing = Vec::new();
        for (name, entry) in &mut self.entries {
            let held = entry.chains.iter_mut();
            let held: Vec<&mut Held> = held.filter(|held| chains.contains(&held.chain)).collect();
            if held.is_empty() {
                continue;
            }
            let same = match (&found, services.get(name)) {
                (Some(found), Some(state)) => same_chains(found, &held, |sheet, comments| {
                    service::write(sheet, name, state, setting, comments);
                }),
                _ => BTreeMap::new(),
            };
            for held in held {
                held.digest = same.get(&held.chain).copied().unwrap_or(UNKNOWN);
                if held.digest == UNKNOWN {
                    differing.push((name.clone(), held.chain));
                }
            }
        }
        differing
    }

    /// Notes that a shared chain has to be written whole, for example because it is missing.
    pub fn rewrite_dispatch(&mut self, table: Table, chain: &str) {
        self.rewrite.extend(dispatch(table, chain));
    }

    /// Compares a shared chain with its listing, as `-S CHAIN` prints it, and notes what the
    /// kernel holds.
    pub fn verify_dispatch(
        &mut self,
        (table, chain): (Table, &str),
        listing: &str,
        repair: DispatchRepair,
    ) -> DispatchDrift {
        let Some(to) = dispatch(table, chain) else {
            return DispatchDrift::default();
        };
        let mut rules = Found::of_dispatch(to, listing);
        let mut drift = DispatchDrift::default();
        if to == Dispatch::NatServices && take_tail(&mut rules, &self.tail).is_err() {
            // Those that stand elsewhere are deleted as third-party rules.
            drift.missing += self.tail.len();
            self.tail.clear();
        }
        let mut claims = Claims::new(rules);
        let mut lacking: BTreeMap<ServiceName, Entry> = BTreeMap::new();
        for (name, entry) in &self.entries {
            let Claimed { kept, is_in_order } = Claimed::by(entry, to, &mut claims);
            let missing = entry.dispatch.len() - kept.len();
            drift.missing += missing;
            drift.is_rewritten |= !is_in_order;
            if missing > 0 {
                let kept = Entry::new(entry.chains.to_vec(), kept, entry.tally);
                lacking.insert(name.clone(), kept);
            }
        }
        let foreign: Vec<_> = claims.unclaimed().collect();
        drift.foreign = foreign.len();
        drift.is_rewritten |= repair == DispatchRepair::Chain && !drift.is_none();
        if drift.is_rewritten {
            self.rewrite.insert(to);
            return drift;
        }
        for (name, entry) in lacking {
            self.insert(&name, entry);
            drift.services.insert(name);
        }
        if !foreign.is_empty() {
            let place = Place { to, port: 0 };
            let rules = foreign.into_iter().map(|rule| (place, rule.text));
            drift.services.insert(self.add_unowned(rules.collect()));
        }
        drift
    }

    /// Adds rules that no Service has, so that they are removed. Returns the name that they have
    /// in the ledger.
    fn add_unowned(&mut self, mut rules: Vec<PlacedRule>) -> ServiceName {
        let unowned = unowned();
        let before = self.entries.get(&unowned).cloned().unwrap_or_default();
        rules.splice(0..0, before.dispatch);
        let entry = Entry::new(before.chains.into(), rules, Tally::default());
        self.insert(&unowned, entry);
        unowned
    }
}

/// Digest of a chain with unknown rules: no chain that was rendered has it.
const UNKNOWN: Digest = 0;

/// Returns the chains that hold in the kernel what is rendered, with the digests of that. The
/// kernel spells rules differently, so they are rendered once more. A chain that differed from the
/// ledger before, and was repaired by another program, is among them.
fn same_chains(
    found: &Found,
    held: &[&mut Held],
    write: impl Fn(&mut Sheet, Comments),
) -> BTreeMap<ServiceChain, Digest> {
    let mut same = BTreeMap::new();
    let mut sheet = Sheet::default();
    for comments in [Comments::Everywhere, Comments::NotOnEndpoints] {
        write(&mut sheet, comments);
        for entry in sheet.chains() {
            let is_held = held.iter().any(|held| held.chain == entry.chain);
            if is_held && holds(&found.chains, entry.chain, sheet.text(entry)) {
                same.insert(entry.chain, entry.digest);
            }
        }
        if same.len() == held.len() {
            break;
        }
    }
    same
}

fn dispatch(table: Table, chain: &str) -> Option<Dispatch> {
    let mut all = Dispatch::ALL.into_iter();
    all.find(|to| (to.table(), to.chain()) == (table, chain))
}

/// Dispatch rules that one Service has in the kernel, those of other chains among them.
struct Claimed {
    kept: Vec<PlacedRule>,
    /// Rules of one port stand in their order.
    is_in_order: bool,
}

impl Claimed {
    /// Claims the rules of one Service in a chain.
    fn by(entry: &Entry, to: Dispatch, claims: &mut Claims) -> Self {
        let mut kept = Vec::with_capacity(entry.dispatch.len());
        let mut last: Option<(Place, usize)> = None;
        let mut is_in_order = true;
        for (place, rule) in &entry.dispatch {
            if place.to != to {
                kept.push((*place, rule.clone()));
            } else if let Some(at) = claims.take(rule) {
                is_in_order &= last.is_none_or(|(of, before)| of != *place || before < at);
                last = Some((*place, at));
                kept.push((*place, rule.clone()));
            }
        }
        Self { kept, is_in_order }
    }
}
