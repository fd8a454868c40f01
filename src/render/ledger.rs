//! What the kernel holds of ours, as far as we know: a digest of every chain, and every dispatch
//! rule.
//!
//! Apart from the tracker, which remembers what the cluster wants. A partial payload is the
//! difference between the two.
//!
//! # Invariants
//!
//! - It describes the kernel only after a successful restore. After a failed one nobody knows, so
//!   it is thrown away and the next restore is full.

use std::collections::{BTreeMap, BTreeSet};

use super::chain::ServiceChain;
use super::sheet::{ChainEntry, Digest, Dispatch, Place, Sheet};
use super::stats::RuleCounts;
use super::tally::Tally;
use crate::model::ServiceName;

/// Everything the last successful restores left in the kernel.
#[derive(Debug, Default)]
pub struct Ledger {
    pub(super) entries: BTreeMap<ServiceName, Entry>,
    /// The rules that lead to NodePorts.
    pub(super) tail: Vec<Box<[u8]>>,
    /// Rules of the fixed chains, without the tail.
    pub(super) base: RuleCounts,
    service_chain_rules: u64,
    dispatch_rules: [u64; Dispatch::ALL.len()],
    tally: Tally,
    /// Shared chains that the next payload writes whole.
    pub(super) rewrite: BTreeSet<Dispatch>,
    /// The programs can show all of nat: no rule in it is of a kind that only `nft` knows.
    pub(super) can_list_nat: bool,
}

/// A dispatch rule and where it belongs.
pub(super) type PlacedRule = (Place, Box<[u8]>);

/// What some Services have in the kernel, to be put back if a restore changed nothing.
#[derive(Debug)]
pub struct Saved {
    entries: Vec<(ServiceName, Entry)>,
    tail: Vec<Box<[u8]>>,
}

/// What one Service has in the kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    /// Sorted by chain.
    pub(super) chains: Box<[Held]>,
    pub(super) dispatch: Box<[PlacedRule]>,
    pub(super) tally: Tally,
}

/// One chain in the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) chain: ServiceChain,
    pub(super) digest: Digest,
    pub(super) rules: u32,
}

impl Held {
    /// A chain that holds what was rendered.
    pub(super) const fn of(entry: &ChainEntry) -> Self {
        Self {
            chain: entry.chain,
            digest: entry.digest,
            rules: entry.rules,
        }
    }

    /// A chain of which nobody knows what it holds; good enough to be deleted.
    pub(super) const fn unknown(chain: ServiceChain) -> Self {
        Self {
            chain,
            digest: 0,
            rules: 0,
        }
    }
}

impl Ledger {
    /// A kernel that has what depends on options alone, and was read.
    pub(super) fn of_foundations(base: RuleCounts, tail: Vec<Box<[u8]>>) -> Self {
        Self {
            tail,
            base,
            can_list_nat: true,
            ..Self::default()
        }
    }

    /// Notes that `nat` has a rule that `iptables-restore` cannot print: until a full restore has
    /// read the table, no payload asks for a listing of it.
    pub fn nat_is_unprintable(&mut self) {
        self.can_list_nat = false;
    }

    /// How many rules of ours there are.
    pub fn rules(&self) -> RuleCounts {
        let mut counts = self.base;
        counts.nat += self.service_chain_rules + self.tail.len() as u64;
        for (dispatch, rules) in Dispatch::ALL.into_iter().zip(self.dispatch_rules) {
            counts.add(dispatch.table(), rules);
        }
        counts
    }

    /// What all Services together amount to besides rules.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Reports whether all of the nat table can be listed at once.
    pub const fn can_list_nat(&self) -> bool {
        self.can_list_nat
    }

    /// Every chain of every Service.
    pub fn chains(&self) -> impl Iterator<Item = ServiceChain> {
        self.entries
            .values()
            .flat_map(|entry| entry.chains.iter().map(|held| held.chain))
    }

    /// How many endpoints one Service has.
    pub(super) fn endpoints_of(&self, name: &ServiceName) -> usize {
        self.entries
            .get(name)
            .map_or(0, |entry| entry.tally.endpoints)
    }

    /// How many rules a dispatch chain has, the tail aside.
    pub(super) fn dispatch_len(&self, of: Dispatch) -> u64 {
        Dispatch::ALL
            .into_iter()
            .zip(self.dispatch_rules)
            .find_map(|(dispatch, rules)| (dispatch == of).then_some(rules))
            .unwrap_or_default()
    }

    /// The rules of a dispatch chain, by Service and place; the tail aside.
    pub(super) fn dispatch_places(&self, of: Dispatch) -> impl Iterator<Item = &[PlacedRule]> {
        let rules = self.entries.values().map(|entry| &*entry.dispatch);
        let places = rules.flat_map(|rules| rules.chunk_by(|one, other| one.0 == other.0));
        places.filter(move |rules| rules.iter().any(|(place, _)| place.to == of))
    }

    /// From here on the Service has what its sheet says. Gives what it had before.
    pub(super) fn record(&mut self, name: &ServiceName, sheet: &Sheet) -> Entry {
        self.insert(name, Entry::from_sheet(sheet))
    }

    /// Copies what these Services have.
    pub fn save(&self, names: &[ServiceName]) -> Saved {
        let entry = |name: &ServiceName| self.entries.get(name).cloned().unwrap_or_default();
        Saved {
            entries: names
                .iter()
                .map(|name| (name.clone(), entry(name)))
                .collect(),
            tail: self.tail.clone(),
        }
    }

    /// The Services have what they had then.
    pub fn put_back(&mut self, saved: Saved) {
        self.tail = saved.tail;
        for (name, entry) in saved.entries {
            self.insert(&name, entry);
        }
    }

    /// Whether anything of the Service is there.
    pub(super) fn has(&self, name: &ServiceName) -> bool {
        self.entries.contains_key(name)
    }

    /// The Service has this. Gives what it had before.
    pub(super) fn insert(&mut self, name: &ServiceName, entry: Entry) -> Entry {
        self.count(&entry, u64::wrapping_add);
        self.tally += entry.tally;
        let previous = if entry.is_empty() {
            self.entries.remove(name)
        } else {
            self.entries.insert(name.clone(), entry)
        };
        let previous = previous.unwrap_or_default();
        self.count(&previous, u64::wrapping_sub);
        self.tally -= previous.tally;
        previous
    }

    fn count(&mut self, entry: &Entry, step: fn(u64, u64) -> u64) {
        let rules = entry.chains.iter().map(|held| u64::from(held.rules)).sum();
        self.service_chain_rules = step(self.service_chain_rules, rules);
        for (dispatch, total) in Dispatch::ALL.into_iter().zip(&mut self.dispatch_rules) {
            let rules = entry
                .dispatch
                .iter()
                .filter(|(place, _)| place.to == dispatch)
                .count();
            *total = step(*total, rules as u64);
        }
    }
}

impl Entry {
    fn from_sheet(sheet: &Sheet) -> Self {
        let chains = sheet.chains().map(Held::of);
        let rules = sheet.dispatch_rules();
        let dispatch = rules.map(|(place, rule)| (place, rule.into()));
        Self::new(chains.collect(), dispatch.collect(), sheet.tally)
    }

    /// Chains in any order; rules of one place in theirs.
    pub(super) fn new(mut chains: Vec<Held>, dispatch: Vec<PlacedRule>, tally: Tally) -> Self {
        chains.sort_unstable_by_key(|held| held.chain);
        Self {
            chains: chains.into(),
            dispatch: dispatch.into(),
            tally,
        }
    }

    /// Nothing worth remembering: a Service that left nothing, or was never there.
    fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.dispatch.is_empty() && self.tally == Tally::default()
    }

    /// The digest of a chain, if the kernel has it.
    pub(super) fn digest(&self, chain: ServiceChain) -> Option<Digest> {
        let at = self
            .chains
            .binary_search_by_key(&chain, |held| held.chain)
            .ok()?;
        self.chains.get(at).map(|held| held.digest)
    }
}
