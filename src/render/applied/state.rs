//! Rules that the last successful restores left in the kernel: a digest of every Service chain,
//! and every dispatch rule.
//!
//! A partial payload is the difference between this and the rules rendered from the
//! [`tracker`](crate::tracker).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use crate::model::ServiceName;
use crate::render::service::{DispatchRule, RenderedChain, ServiceRules, ServiceTotals, by_key};
use crate::render::tree::{
    DispatchTree, TreeChanges, TreeExtent, TreeThresholds, TreeUpdate, WrittenChain,
};
use crate::rules::{RulesDigest, Table};
use crate::ruleset::{DispatchChain, DispatchForm, ServiceChain};

/// Rules of the proxy in the kernel, as far as restores and comparisons have shown.
///
/// # After a restore
///
/// [`partial_payload`](super::super::partial_payload) updates the state while it renders, before
/// the restore:
///
/// - The restore succeeds: the state describes the kernel.
/// - The restore fails, and the kernel rejected the payload before any change: the caller reverts
///   the state with [`Self::revert_to`], to a copy that [`Self::snapshot`] made before rendering.
/// - The restore ended before a table, for example because another program held the lock: the
///   tables before it are applied. The caller keeps the state, and restores the text of the others
///   before the next payload.
/// - The restore fails otherwise: the rules in the kernel are unknown. The caller drops the state,
///   and the next restore is full.
#[derive(Debug, Default)]
pub struct AppliedState {
    pub(super) services: BTreeMap<ServiceName, AppliedService>,
    /// Jumps to `KUBE-NODEPORTS`, the last rules of `KUBE-SERVICES`.
    pub(crate) node_ports_jumps: Vec<Box<[u8]>>,
    /// Numbers of rules in the fixed chains.
    pub(crate) fixed_rule_counts: RuleCounts,
    /// Number of rules in all Service chains.
    service_chain_rule_count: u64,
    /// Number of rules in each dispatch chain, without the jumps to `KUBE-NODEPORTS`; those of a
    /// tree count for its dispatch chain.
    dispatch_rule_counts: BTreeMap<DispatchChain, u64>,
    totals: ServiceTotals,
    /// Flat dispatch chains that the next partial payload writes whole, even without changes.
    pub(crate) chains_to_rewrite: BTreeSet<DispatchChain>,
    /// Dispatch chains that are trees.
    pub(super) trees: BTreeMap<DispatchChain, DispatchTree>,
    /// Tree chains in the kernel that no rule of the proxy references; the next partial payload
    /// deletes them.
    pub(super) unused_tree_chains: BTreeSet<(Table, Box<str>)>,
    /// The iptables binaries can print all of nat, also with `-S`: no rule in it is unprintable.
    pub(crate) is_nat_printable: bool,
}

/// Copy of all that rendering a partial payload for some Services changes in the applied state, to
/// [revert](AppliedState::revert_to) to if the restore changed nothing.
#[derive(Debug)]
pub struct AppliedSnapshot {
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
    /// Digest of the rules that were written or adopted.
    pub(super) digest: RulesDigest,
    /// The kernel holds other rules, or may.
    pub(super) is_damaged: bool,
    rule_count: u32,
}

impl RecordedChain {
    /// Returns a chain that holds the rendered rules.
    pub(super) const fn of(rendered: &RenderedChain) -> Self {
        Self {
            chain: rendered.chain,
            digest: rendered.digest,
            is_damaged: false,
            rule_count: rendered.rule_count,
        }
    }

    /// Returns a chain whose rules are not known: it is to be deleted, or written again.
    pub(super) const fn unknown(chain: ServiceChain) -> Self {
        Self {
            chain,
            digest: RulesDigest::UNKNOWN,
            is_damaged: true,
            rule_count: 0,
        }
    }
}

impl AppliedState {
    /// Returns the state of a kernel without Services, of which all tables were read.
    pub(super) fn without_services(
        fixed_rule_counts: RuleCounts,
        node_ports_jumps: Vec<Box<[u8]>>,
    ) -> Self {
        Self {
            node_ports_jumps,
            fixed_rule_counts,
            is_nat_printable: true,
            ..Self::default()
        }
    }

    /// Notes that nat has an unprintable rule: until a full restore has read the table, no payload
    /// contains `-S`, which would fail.
    pub fn set_nat_unprintable(&mut self) {
        self.is_nat_printable = false;
    }

    /// Returns the numbers of rules of the proxy in the kernel.
    pub fn rule_counts(&self) -> RuleCounts {
        let mut counts = self.fixed_rule_counts;
        counts.nat += self.service_chain_rule_count + self.node_ports_jumps.len() as u64;
        for (dispatch, count) in &self.dispatch_rule_counts {
            counts.add(dispatch.table(), *count);
        }
        for (dispatch, tree) in &self.trees {
            // One jump to each tree chain.
            counts.add(dispatch.table(), tree.len() as u64);
        }
        counts
    }

    /// Returns the number of tree chains in the kernel.
    pub fn tree_chain_count(&self) -> usize {
        self.trees.values().map(DispatchTree::len).sum()
    }

    /// Returns the sums over all applied Services.
    pub fn totals(&self) -> ServiceTotals {
        self.totals
    }

    /// Reports whether nat has no unprintable rule.
    pub const fn is_nat_printable(&self) -> bool {
        self.is_nat_printable
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
    pub(crate) fn dispatch_rule_count(&self, dispatch: DispatchChain) -> u64 {
        self.dispatch_rule_counts
            .get(&dispatch)
            .copied()
            .unwrap_or_default()
    }

    /// Returns the rule groups of a dispatch chain, sorted by Service, without the jumps to
    /// `KUBE-NODEPORTS`.
    pub(crate) fn rule_groups(&self, of: DispatchChain) -> impl Iterator<Item = &[DispatchRule]> {
        let rules = self.services.values().map(|service| &*service.dispatch);
        let groups = rules.flat_map(|rules| rules.chunk_by(|one, other| one.key == other.key));
        groups.filter(move |rules| rules.first().is_some_and(|rule| rule.key.chain == of))
    }

    /// Moves rules of the leftover Service that jump to chains of these Services to these: a
    /// payload that deletes such a chain has to delete the jumps to it as well.
    pub fn claim_leftover_jumps(&mut self, names: &[ServiceName]) {
        let name = leftover_service();
        let Some(mut leftover) = self.services.get(&name).cloned() else {
            return;
        };
        for owner in names {
            let Some(mut service) = self.services.get(owner).cloned() else {
                continue;
            };
            let is_jump_to_it = |rule: &mut DispatchRule| {
                let target = rule.target_chain();
                target.is_some_and(|chain| service.digest(chain).is_some())
            };
            let mut rest = leftover.dispatch.into_vec();
            let claimed: Vec<_> = rest.extract_if(.., is_jump_to_it).collect();
            leftover.dispatch = rest.into();
            if !claimed.is_empty() {
                // In front, because groups are sorted: these are of no port.
                service.dispatch = [claimed.as_slice(), &service.dispatch].concat().into();
                self.insert(owner, service);
            }
        }
        self.insert(&name, leftover);
    }

    /// Records the rendered rules of a Service; returns those it had before.
    pub(crate) fn record(&mut self, name: &ServiceName, rules: &ServiceRules) -> AppliedService {
        self.insert(name, AppliedService::rendered(rules))
    }

    /// Copies all that a partial payload for these Services changes.
    pub fn snapshot(&self, names: &[ServiceName]) -> AppliedSnapshot {
        let service = |name: &ServiceName| self.services.get(name).cloned().unwrap_or_default();
        AppliedSnapshot {
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
    pub fn revert_to(&mut self, snapshot: AppliedSnapshot) {
        self.node_ports_jumps = snapshot.node_ports_jumps;
        self.chains_to_rewrite = snapshot.chains_to_rewrite;
        for (name, service) in snapshot.services {
            self.insert(&name, service);
        }
        self.trees = snapshot.trees;
        self.unused_tree_chains = snapshot.unused_tree_chains;
    }

    /// Reports whether these are the recorded rules of a Service, groups in any order.
    pub(super) fn has_rules(&self, name: &ServiceName, rules: &ServiceRules) -> bool {
        let none = AppliedService::default();
        let recorded = self.services.get(name).unwrap_or(&none);
        let is_recorded = |rendered: &RenderedChain| {
            let digest = recorded.digest(rendered.chain);
            digest.is_some_and(|digest| digest.is_same(rendered.digest))
        };
        rules.chains().count() == recorded.chains.len()
            && rules.chains().all(is_recorded)
            && by_key(rules.dispatch_rules())
                == by_key(recorded.dispatch.iter().map(DispatchRule::keyed))
    }

    pub(super) fn has(&self, name: &ServiceName) -> bool {
        self.services.contains_key(name)
    }

    /// Records the rules of a Service; returns those it had before.
    pub(super) fn insert(&mut self, name: &ServiceName, service: AppliedService) -> AppliedService {
        // Counted before it moves into the map, which returns the rules to subtract.
        self.count_rules(&service, |sum, count| *sum += count);
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
        self.count_rules(&previous, |sum, count| *sum -= count);
        self.totals -= previous.totals;
        previous
    }

    /// Updates the numbers of rules for the rules of a Service. `update` adds to a sum or
    /// subtracts from it.
    fn count_rules(&mut self, service: &AppliedService, update: fn(&mut u64, u64)) {
        for recorded in &service.chains {
            update(
                &mut self.service_chain_rule_count,
                recorded.rule_count.into(),
            );
        }
        for rule in &service.dispatch {
            update(
                self.dispatch_rule_counts.entry(rule.key.chain).or_default(),
                1,
            );
        }
    }

    /// Makes trees of the dispatch chains of a table that have enough rules, and flat chains of
    /// those that have too few. The next payload writes them.
    pub(crate) fn reshape(&mut self, table: Table, thresholds: TreeThresholds) {
        for dispatch in DispatchChain::ALL {
            if dispatch.table() != table {
                continue;
            }
            let before = self.form(dispatch);
            let after = thresholds.form(dispatch, self.dispatch_rule_count(dispatch), before);
            match (before, after) {
                (DispatchForm::Flat, DispatchForm::Tree) => self.make_tree(dispatch),
                (DispatchForm::Tree, DispatchForm::Flat) => self.make_flat(dispatch),
                (DispatchForm::Flat, DispatchForm::Flat)
                | (DispatchForm::Tree, DispatchForm::Tree) => {}
            }
        }
    }

    fn form(&self, dispatch: DispatchChain) -> DispatchForm {
        if self.trees.contains_key(&dispatch) {
            DispatchForm::Tree
        } else {
            DispatchForm::Flat
        }
    }

    /// Renders the chains of a tree that may differ from those in the kernel, and records them as
    /// if they had been restored, so that the next call does not return them again. `None` if the
    /// dispatch chain is flat.
    pub(crate) fn render_and_record_tree(
        &mut self,
        dispatch: DispatchChain,
        extent: TreeExtent,
    ) -> Option<TreeChanges> {
        let services = &self.services;
        let tree = self.trees.get_mut(&dispatch)?;
        Some(tree.render_and_record(extent, &|name, index| rule_text(services, name, index)))
    }

    /// Begins to render and record all chains of a tree one at a time, with
    /// [`Self::next_tree_chain`]; `None` if the dispatch chain is flat.
    pub(crate) fn begin_tree_update(&mut self, dispatch: DispatchChain) -> Option<TreeUpdate> {
        let tree = self.trees.get_mut(&dispatch)?;
        Some(tree.begin_update(TreeExtent::AllChains))
    }

    /// Renders and records the next chain that has to be written; `None` after the last one.
    pub(crate) fn next_tree_chain(
        &mut self,
        dispatch: DispatchChain,
        update: &mut TreeUpdate,
    ) -> Option<WrittenChain> {
        let services = &self.services;
        let tree = self.trees.get_mut(&dispatch)?;
        update.next(tree, &|name, index| rule_text(services, name, index))
    }

    /// Returns the desired rules of a chain of a tree, with `-A CHAIN`; `None` if no tree has such
    /// a chain.
    pub(super) fn desired_in_tree(&self, dispatch: DispatchChain, chain: &str) -> Option<String> {
        let tree = self.trees.get(&dispatch)?;
        tree.desired(chain, &|name, index| rule_text(&self.services, name, index))
    }

    /// Returns the tree chains of a table that the caller deletes, and records them as deleted.
    pub(crate) fn take_unused_tree_chains(&mut self, table: Table) -> Vec<Box<str>> {
        let all = std::mem::take(&mut self.unused_tree_chains);
        let (unused, rest): (BTreeSet<_>, _) = all.into_iter().partition(|(of, _)| *of == table);
        self.unused_tree_chains = rest;
        unused.into_iter().map(|(_, name)| name).collect()
    }

    /// Returns all tree chains in the kernel, also those to be deleted.
    pub(super) fn all_tree_chains(&self) -> BTreeSet<(Table, Box<str>)> {
        let used = self.tree_chains();
        let used = used.map(|(table, name)| (table, name.into()));
        used.chain(self.unused_tree_chains.iter().cloned())
            .collect()
    }

    /// Returns the tree chains in use, with their tables.
    pub(super) fn tree_chains(&self) -> impl Iterator<Item = (Table, &str)> {
        let trees = self.trees.iter();
        trees.flat_map(|(dispatch, tree)| tree.names().map(|name| (dispatch.table(), name)))
    }

    /// Returns the names of the tree chains of a table.
    pub(crate) fn tree_chain_names(&self, table: Table) -> BTreeSet<&str> {
        let of_table = self.tree_chains().filter(|(of, _)| *of == table);
        of_table.map(|(_, name)| name).collect()
    }

    pub(super) fn make_tree(&mut self, dispatch: DispatchChain) {
        let mut tree = DispatchTree::new(dispatch);
        for (name, service) in &self.services {
            tree.replace(name, &[], &service.dispatch);
        }
        self.trees.insert(dispatch, tree);
    }

    fn make_flat(&mut self, dispatch: DispatchChain) {
        let tree = self.trees.remove(&dispatch).into_iter();
        let names: Vec<Box<str>> = tree
            .flat_map(|tree| tree.names().map(Box::from).collect::<Vec<_>>())
            .collect();
        let unused = names.into_iter().map(|name| (dispatch.table(), name));
        self.unused_tree_chains.extend(unused);
        self.chains_to_rewrite.insert(dispatch);
    }
}

impl AppliedService {
    pub(super) fn rendered(rules: &ServiceRules) -> Self {
        let chains = rules.chains().map(RecordedChain::of);
        let dispatch = rules.to_dispatch_rules();
        Self::new(chains.collect(), dispatch.collect(), rules.totals())
    }

    /// Takes chains in any order; dispatch rules of one group in their order.
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

    /// Returns the digest of the rules that a chain has in the kernel, if the kernel has the chain.
    pub(crate) fn digest(&self, chain: ServiceChain) -> Option<RulesDigest> {
        let at = self
            .chains
            .binary_search_by_key(&chain, |recorded| recorded.chain)
            .ok()?;
        let recorded = self.chains.get(at)?;
        Some(if recorded.is_damaged {
            RulesDigest::UNKNOWN
        } else {
            recorded.digest
        })
    }
}

/// Returns the name of the *leftover Service*: an empty namespace and name, which no Service of
/// the cluster has.
///
/// The applied state records under it the Service chains in the kernel that no Service has, and
/// the rules of dispatch chains that belong to none, stale or third-party. Nothing is ever
/// rendered for it, so a partial payload for which it is dirty deletes all of them.
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
    pub(crate) fn add(&mut self, table: Table, count: u64) {
        match table {
            Table::Filter => self.filter += count,
            Table::Nat => self.nat += count,
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
    /// Rules written, without deletions and entry jumps.
    pub rules: RuleCounts,
    /// Chains written or deleted; fixed chains and unused tree chains count in full payloads only,
    /// canaries and `KUBE-FIREWALL` never.
    pub chains: u64,
    /// Length of the text in bytes.
    pub bytes: u64,
}

/// Returns the text of a dispatch rule of one Service.
fn rule_text<'s>(
    services: &'s BTreeMap<ServiceName, AppliedService>,
    name: &ServiceName,
    index: u32,
) -> &'s [u8] {
    let service = services.get(name);
    let rule = service.and_then(|service| service.dispatch.get(index as usize));
    rule.map_or(&[], |rule| &*rule.text)
}
