//! Rules that the last successful restores left in the kernel: a digest of every Service chain,
//! and every dispatch rule.
//!
//! A partial payload is the difference between this and the rules rendered from the
//! [`tracker`](crate::tracker).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use crate::model::ServiceName;
use crate::render::service::{
    DispatchRule, RenderedChain, ServiceRules, ServiceTotals, TextDigest,
};
use crate::render::tree::DispatchTree;
use crate::rules::Table;
use crate::ruleset::{DispatchChain, ServiceChain};

/// Rules of the proxy in the kernel, as of the last successful restore.
///
/// # After a restore
///
/// [`partial`](super::super::partial()) updates the state while it renders, before the restore:
///
/// - The restore succeeds: the state describes the kernel.
/// - The restore fails, and the kernel rejected the payload before any change: the caller reverts
///   the state with [`Self::put_back`], to a copy that [`Self::save`] made before rendering.
/// - The restore of a table could not begin, for example because another program holds the lock:
///   the caller keeps the state and restores the rest of the text before the next payload.
/// - The restore fails otherwise: the rules in the kernel are unknown. The caller drops the state,
///   and the next restore is full.
#[derive(Debug, Default)]
pub struct AppliedState {
    pub(super) services: BTreeMap<ServiceName, AppliedService>,
    /// Jumps to `KUBE-NODEPORTS`, the last rules of `KUBE-SERVICES`.
    pub(crate) node_ports_jumps: Vec<Box<[u8]>>,
    /// Numbers of rules in the fixed chains.
    pub(crate) fixed_rules: RuleCounts,
    service_chain_rules: u64,
    /// Number of rules in each dispatch chain, without the jumps to `KUBE-NODEPORTS`.
    dispatch_rules: [u64; DispatchChain::ALL.len()],
    totals: ServiceTotals,
    /// Dispatch chains that the next partial payload writes whole, even without changes.
    pub(crate) chains_to_rewrite: BTreeSet<DispatchChain>,
    /// Dispatch chains that are trees.
    pub(super) trees: BTreeMap<DispatchChain, DispatchTree>,
    /// Tree chains in the kernel that no dispatch chain leads to; the next partial payload deletes
    /// them.
    pub(super) unused_tree_chains: BTreeSet<(Table, Box<str>)>,
    /// The iptables binaries can print all of nat: no rule in it is of a kind that only `nft`
    /// knows.
    pub(crate) can_list_nat: bool,
}

/// Copy of all that rendering a partial payload for some Services changes in the applied state, to
/// be put back if the restore changed nothing.
#[derive(Debug)]
pub struct SavedServices {
    services: Vec<(ServiceName, AppliedService)>,
    node_ports_jumps: Vec<Box<[u8]>>,
    chains_to_rewrite: BTreeSet<DispatchChain>,
    trees: BTreeMap<DispatchChain, DispatchTree>,
    unused_tree_chains: BTreeSet<(Table, Box<str>)>,
}

/// Rules of one Service in the kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct AppliedService {
    /// Sorted by chain.
    pub(crate) chains: Box<[RecordedChain]>,
    pub(crate) dispatch: Box<[DispatchRule]>,
    pub(super) totals: ServiceTotals,
}

/// Service chain in the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedChain {
    pub(crate) chain: ServiceChain,
    pub(super) digest: TextDigest,
    rules: u32,
}

impl RecordedChain {
    /// Returns a chain that holds the rendered rules.
    pub(super) const fn of(entry: &RenderedChain) -> Self {
        Self {
            chain: entry.chain,
            digest: entry.digest,
            rules: entry.rules,
        }
    }

    /// Returns a chain with unknown rules, which can be deleted.
    pub(super) const fn unknown(chain: ServiceChain) -> Self {
        Self {
            chain,
            digest: TextDigest::UNKNOWN,
            rules: 0,
        }
    }
}

impl AppliedState {
    /// Returns the state of a kernel without Services, of which all tables were read.
    pub(super) fn without_services(
        fixed_rules: RuleCounts,
        node_ports_jumps: Vec<Box<[u8]>>,
    ) -> Self {
        Self {
            node_ports_jumps,
            fixed_rules,
            can_list_nat: true,
            ..Self::default()
        }
    }

    /// Notes that `nat` has a rule that `iptables-restore` cannot print: until a full restore has
    /// read the table, no payload lists it.
    pub fn set_nat_unprintable(&mut self) {
        self.can_list_nat = false;
    }

    /// Returns the numbers of rules of the proxy in the kernel.
    pub fn rules(&self) -> RuleCounts {
        let mut counts = self.fixed_rules;
        counts.nat += self.service_chain_rules + self.node_ports_jumps.len() as u64;
        for (dispatch, rules) in DispatchChain::ALL.into_iter().zip(self.dispatch_rules) {
            counts.add(dispatch.table(), rules);
        }
        for (dispatch, tree) in &self.trees {
            counts.add(dispatch.table(), tree.len() as u64);
        }
        counts
    }

    /// Returns the sums over all applied Services.
    pub fn totals(&self) -> ServiceTotals {
        self.totals
    }

    /// Reports whether all of the nat table can be listed at once.
    pub const fn can_list_nat(&self) -> bool {
        self.can_list_nat
    }

    /// Returns every chain of every Service.
    pub fn chains(&self) -> impl Iterator<Item = ServiceChain> {
        self.services
            .values()
            .flat_map(|service| service.chains.iter().map(|recorded| recorded.chain))
    }

    /// Returns the number of endpoints of a Service, 0 for an unknown one.
    pub(crate) fn endpoints_of(&self, name: &ServiceName) -> usize {
        self.services
            .get(name)
            .map_or(0, |service| service.totals.endpoints)
    }

    /// Returns the number of rules in a dispatch chain, without the jumps to `KUBE-NODEPORTS`.
    pub(crate) fn dispatch_len(&self, of: DispatchChain) -> u64 {
        DispatchChain::ALL
            .into_iter()
            .zip(self.dispatch_rules)
            .find_map(|(dispatch, rules)| (dispatch == of).then_some(rules))
            .unwrap_or_default()
    }

    /// Returns the rules of a dispatch chain, in groups of equal keys and sorted by Service,
    /// without the jumps to `KUBE-NODEPORTS`.
    pub(crate) fn dispatch_groups(
        &self,
        of: DispatchChain,
    ) -> impl Iterator<Item = &[DispatchRule]> {
        let rules = self.services.values().map(|service| &*service.dispatch);
        let groups = rules.flat_map(|rules| rules.chunk_by(|one, other| one.key == other.key));
        groups.filter(move |rules| rules.first().is_some_and(|rule| rule.key.chain == of))
    }

    /// Records the rendered rules of a Service; returns those it had before.
    pub(crate) fn record(&mut self, name: &ServiceName, rules: &ServiceRules) -> AppliedService {
        self.insert(name, AppliedService::rendered(rules))
    }

    /// Copies all that a partial payload for these Services changes.
    pub fn save(&self, names: &[ServiceName]) -> SavedServices {
        let service = |name: &ServiceName| self.services.get(name).cloned().unwrap_or_default();
        SavedServices {
            services: names
                .iter()
                .map(|name| (name.clone(), service(name)))
                .collect(),
            node_ports_jumps: self.node_ports_jumps.clone(),
            chains_to_rewrite: self.chains_to_rewrite.clone(),
            trees: self.trees.clone(),
            unused_tree_chains: self.unused_tree_chains.clone(),
        }
    }

    /// Reverts the state to the copy, after a restore that changed nothing in the kernel.
    pub fn put_back(&mut self, saved: SavedServices) {
        self.node_ports_jumps = saved.node_ports_jumps;
        self.chains_to_rewrite = saved.chains_to_rewrite;
        for (name, service) in saved.services {
            self.insert(&name, service);
        }
        self.trees = saved.trees;
        self.unused_tree_chains = saved.unused_tree_chains;
    }

    pub(super) fn has(&self, name: &ServiceName) -> bool {
        self.services.contains_key(name)
    }

    /// Records the rules of a Service; returns those it had before.
    pub(super) fn insert(&mut self, name: &ServiceName, service: AppliedService) -> AppliedService {
        self.count(&service, u64::wrapping_add);
        self.totals += service.totals;
        if !self.trees.is_empty() {
            let before = self.services.get(name).map(|service| &*service.dispatch);
            for tree in self.trees.values_mut() {
                tree.replace(name, before.unwrap_or_default(), &service.dispatch);
            }
        }
        let previous = if service.is_empty() {
            self.services.remove(name)
        } else {
            self.services.insert(name.clone(), service)
        };
        let previous = previous.unwrap_or_default();
        self.count(&previous, u64::wrapping_sub);
        self.totals -= previous.totals;
        previous
    }

    fn count(&mut self, service: &AppliedService, step: fn(u64, u64) -> u64) {
        let chains = service.chains.iter();
        let rules = chains.map(|recorded| u64::from(recorded.rules)).sum();
        self.service_chain_rules = step(self.service_chain_rules, rules);
        for (dispatch, total) in DispatchChain::ALL.into_iter().zip(&mut self.dispatch_rules) {
            let rules = service
                .dispatch
                .iter()
                .filter(|rule| rule.key.chain == dispatch)
                .count();
            *total = step(*total, rules as u64);
        }
    }
}

impl AppliedService {
    fn rendered(rules: &ServiceRules) -> Self {
        let chains = rules.chains().map(RecordedChain::of);
        let dispatch = rules.to_dispatch_rules();
        Self::new(chains.collect(), dispatch.collect(), rules.totals())
    }

    /// Takes chains in any order; dispatch rules of one key in their order.
    pub(super) fn new(
        mut chains: Vec<RecordedChain>,
        dispatch: Vec<DispatchRule>,
        totals: ServiceTotals,
    ) -> Self {
        chains.sort_unstable_by_key(|recorded| recorded.chain);
        Self {
            chains: chains.into(),
            dispatch: dispatch.into(),
            totals,
        }
    }

    /// Reports whether there is nothing to record: the Service has no rules and no endpoints.
    fn is_empty(&self) -> bool {
        self.chains.is_empty()
            && self.dispatch.is_empty()
            && self.totals == ServiceTotals::default()
    }

    /// Returns the digest of a chain, if the kernel has the chain.
    pub(crate) fn digest(&self, chain: ServiceChain) -> Option<TextDigest> {
        let at = self
            .chains
            .binary_search_by_key(&chain, |recorded| recorded.chain)
            .ok()?;
        self.chains.get(at).map(|recorded| recorded.digest)
    }
}

/// Returns the name of the *leftover Service*: an empty namespace and name, which no Service has.
///
/// Recorded under it are Service chains that no Service has, and rules of dispatch chains that no
/// Service has, stale or third-party. Nothing is ever rendered for it, so a partial payload for
/// which it is dirty deletes all of them.
pub(super) fn leftover_service() -> ServiceName {
    ServiceName::new("", "")
}

/// Numbers of rules by table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// Rules in the filter table.
    pub filter: u64,
    /// Rules in the nat table.
    pub nat: u64,
}

impl RuleCounts {
    /// Returns the sum over both tables.
    pub const fn total(self) -> u64 {
        self.filter + self.nat
    }

    /// Adds rules of one table; those of mangle are not counted.
    pub(crate) fn add(&mut self, table: Table, rules: u64) {
        match table {
            Table::Filter => self.filter += rules,
            Table::Nat => self.nat += rules,
            Table::Mangle => {}
        }
    }
}

impl AddAssign for RuleCounts {
    fn add_assign(&mut self, other: Self) {
        self.filter += other.filter;
        self.nat += other.nat;
    }
}

/// Size of one payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PayloadStats {
    /// Rules written: deletions do not count.
    pub rules: RuleCounts,
    /// Chains written or deleted.
    pub chains: u64,
    /// Length of the text in bytes.
    pub bytes: u64,
}
