//! Corrects the ledger where the kernel holds other rules than it says, chain by chain.
//!
//! Kept separate from [`adopt`](super::adopt), which compares whole tables, because a program that
//! changes one chain should not cost the reading of all. The next partial payload then brings what
//! is missing and removes what is not ours.

use std::collections::{BTreeMap, BTreeSet};

use super::chain::ServiceChain;
use super::claims::{Claims, take_tail, unowned};
use super::found::Found;
use super::ledger::{Entry, Ledger, PlacedRule};
use super::sheet::{Digest, Dispatch, Place};
use super::tally::Tally;
use crate::model::ServiceName;
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

    /// Forgets what chains of Services hold; returns the Services. Other chains are ignored.
    pub fn forget_chains(&mut self, chains: &BTreeSet<Box<str>>) -> BTreeSet<ServiceName> {
        let chains = chains.iter().filter_map(|chain| ServiceChain::parse(chain));
        let chains: BTreeSet<ServiceChain> = chains.collect();
        let mut services = BTreeSet::new();
        for (name, entry) in &mut self.entries {
            for held in entry
                .chains
                .iter_mut()
                .filter(|held| chains.contains(&held.chain))
            {
                held.digest = UNKNOWN;
                services.insert(name.clone());
            }
        }
        services
    }

    /// Notes that a shared chain has to be written whole, for example because it is missing.
    pub fn rewrite_dispatch(&mut self, table: Table, chain: &str) {
        self.rewrite.extend(dispatch(table, chain));
    }

    /// Compares a shared chain with its listing, as `-S CHAIN` prints it, and notes what the
    /// kernel holds.
    pub fn verify_dispatch(&mut self, table: Table, chain: &str, listing: &str) -> DispatchDrift {
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
        if drift.is_rewritten {
            self.rewrite.insert(to);
            return drift;
        }
        for (name, entry) in lacking {
            self.insert(&name, entry);
            drift.services.insert(name);
        }
        let foreign: Vec<_> = claims.unclaimed().collect();
        drift.foreign = foreign.len();
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
