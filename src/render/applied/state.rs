//! Rules that the last successful restores left in the kernel: a digest of every chain, and the
//! text of every dispatch rule.
//!
//! A partial payload is the difference between this and the rules rendered from the
//! [`tracker`](crate::tracker).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use crate::model::ServiceName;
use crate::render::recorded_chain::RecordedChain;
use crate::render::service::{DispatchRule, RenderedChain, ServiceRules, ServiceTotals};
use crate::render::tree::{
    DispatchTree, TreeChanges, TreeExtent, TreeThresholds, TreeUpdate, WrittenChain,
};
use crate::rules::Table;
use crate::ruleset::{DispatchChain, DispatchForm, ServiceChain, tree_of};

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
    /// Flat dispatch chains. One that is not among them is written by the next partial payload.
    pub(super) flat: BTreeMap<DispatchChain, RecordedChain>,
    /// Dispatch chains that are trees.
    pub(super) trees: BTreeMap<DispatchChain, DispatchTree>,
    /// Jumps to `KUBE-NODEPORTS`, the last rules of `KUBE-SERVICES`, as lines with `-A CHAIN`.
    node_ports_jumps: String,
    /// Service chains that a comparison found in the kernel, and that no Service has. A partial
    /// payload deletes them as soon as no chain is damaged: damaged ones may jump to them.
    pub(super) stale_chains: BTreeSet<ServiceChain>,
    /// Tree chains in the kernel that no rule of the proxy references; the next partial payload
    /// deletes them.
    pub(super) unused_tree_chains: BTreeSet<(Table, Box<str>)>,
    /// Numbers of rules in the fixed chains.
    fixed_rule_counts: RuleCounts,
    /// Number of rules in all Service chains.
    service_chain_rule_count: u64,
    /// Number of rules of Services in each dispatch chain; those of a tree count for its dispatch
    /// chain.
    dispatch_rule_counts: BTreeMap<DispatchChain, u64>,
    totals: ServiceTotals,
    /// The iptables binaries can print all of nat, also with `-S`: no rule in it is unprintable.
    pub(crate) is_nat_printable: bool,
}

/// Copy of all that rendering a partial payload for some Services changes in the applied state, to
/// [revert](AppliedState::revert_to) to if the restore changed nothing.
#[derive(Debug)]
pub struct AppliedSnapshot {
    services: Vec<(ServiceName, AppliedService)>,
    flat: BTreeMap<DispatchChain, RecordedChain>,
    trees: BTreeMap<DispatchChain, DispatchTree>,
    node_ports_jumps: String,
    stale_chains: BTreeSet<ServiceChain>,
    unused_tree_chains: BTreeSet<(Table, Box<str>)>,
}

/// Rules of one Service in the kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct AppliedService {
    /// Sorted by chain.
    pub(crate) chains: Box<[RecordedChain<ServiceChain>]>,
    pub(crate) dispatch: Box<[DispatchRule]>,
    pub(super) totals: ServiceTotals,
}

impl AppliedState {
    /// Returns the state of a kernel without Services, with these numbers of rules in the fixed
    /// chains and these jumps to `KUBE-NODEPORTS`, lines with `-A CHAIN`.
    pub(crate) fn without_services(
        fixed_rule_counts: RuleCounts,
        node_ports_jumps: String,
    ) -> Self {
        Self {
            node_ports_jumps,
            fixed_rule_counts,
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
        counts.nat += self.service_chain_rule_count;
        for (dispatch, chain) in &self.flat {
            counts.add(dispatch.table(), chain.rule_count.into());
        }
        for (dispatch, tree) in &self.trees {
            counts.add(dispatch.table(), tree.rule_count());
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

    /// Returns the number of rules that Services have in a dispatch chain.
    pub(super) fn dispatch_rule_count(&self, dispatch: DispatchChain) -> u64 {
        let count = self.dispatch_rule_counts.get(&dispatch);
        count.copied().unwrap_or_default()
    }

    /// Reports whether a partial payload has to write a flat dispatch chain: its rules changed, or
    /// the kernel holds others.
    pub(crate) fn is_flat_chain_due(&self, dispatch: DispatchChain) -> bool {
        let recorded = self.flat.get(&dispatch);
        recorded.is_none_or(RecordedChain::is_damaged)
    }

    /// Records that a flat dispatch chain holds all of its rules, and returns these, as lines with
    /// `-A CHAIN`: those of Services, sorted by name, and last the jumps to `KUBE-NODEPORTS`.
    ///
    /// Differs from upstream: kube-proxy writes Services in random order.
    pub(crate) fn render_and_record_flat_chain(&mut self, dispatch: DispatchChain) -> String {
        let mut lines = String::new();
        let services = self.services.values();
        let rules = services.flat_map(|service| &service.dispatch);
        for rule in rules.filter(|rule| rule.chain == dispatch) {
            lines.extend(["-A ", dispatch.name(), &String::from_utf8_lossy(&rule.text)]);
        }
        if dispatch == DispatchChain::NatServices {
            lines.push_str(&self.node_ports_jumps);
        }
        self.flat.insert(dispatch, RecordedChain::of_lines(&lines));
        lines
    }

    /// Replaces the jumps to `KUBE-NODEPORTS`, lines with `-A CHAIN`.
    pub(crate) fn set_node_ports_jumps(&mut self, jumps: String) {
        if self.node_ports_jumps == jumps {
            return;
        }
        match self.trees.get_mut(&DispatchChain::NatServices) {
            Some(tree) => tree.set_last_rules(&jumps),
            None => drop(self.flat.remove(&DispatchChain::NatServices)),
        }
        self.node_ports_jumps = jumps;
    }

    /// Records the rendered rules of a Service; returns those it had before. The next partial
    /// payload writes the flat dispatch chains whose rules change.
    pub(crate) fn record(&mut self, name: &ServiceName, rules: &ServiceRules) -> AppliedService {
        for rendered in rules.chains() {
            self.stale_chains.remove(&rendered.chain);
        }
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
            flat: self.flat.clone(),
            trees: self.trees.clone(),
            node_ports_jumps: self.node_ports_jumps.clone(),
            stale_chains: self.stale_chains.clone(),
            unused_tree_chains: self.unused_tree_chains.clone(),
        }
    }

    /// Reverts the state to the copy, after a restore that changed nothing in the kernel.
    pub fn revert_to(&mut self, snapshot: AppliedSnapshot) {
        for (name, service) in snapshot.services {
            self.insert(&name, service);
        }
        self.flat = snapshot.flat;
        self.trees = snapshot.trees;
        self.node_ports_jumps = snapshot.node_ports_jumps;
        self.stale_chains = snapshot.stale_chains;
        self.unused_tree_chains = snapshot.unused_tree_chains;
    }

    /// Reports whether these are the recorded rules of a Service.
    pub(super) fn has_rules(&self, name: &ServiceName, rules: &ServiceRules) -> bool {
        let none = AppliedService::default();
        let recorded = self.services.get(name).unwrap_or(&none);
        let dispatch = recorded.dispatch.iter();
        rules.chains().count() == recorded.chains.len()
            && rules.chains().all(|rendered| recorded.holds(rendered))
            && rules
                .dispatch_rules()
                .eq(dispatch.map(|rule| (rule.chain, &*rule.text)))
    }

    /// Records the rules of a Service; returns those it had before.
    pub(super) fn insert(&mut self, name: &ServiceName, service: AppliedService) -> AppliedService {
        // Counted before it moves into the map, which returns the rules to subtract.
        self.count_rules(&service, |sum, count| *sum += count);
        self.totals += service.totals;
        let before = self.services.get(name).map(|service| &*service.dispatch);
        let (before, after) = (before.unwrap_or_default(), &*service.dispatch);
        if before != after {
            for tree in self.trees.values_mut() {
                tree.replace(name, before, after);
            }
            self.flat.retain(|dispatch, _| {
                let of_chain = |rule: &&DispatchRule| rule.chain == *dispatch;
                let before = before.iter().filter(of_chain);
                before.eq(after.iter().filter(of_chain))
            });
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
            update(self.dispatch_rule_counts.entry(rule.chain).or_default(), 1);
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

    /// Returns the stale chains that the caller can delete, and records them as deleted.
    pub(crate) fn take_stale_chains(&mut self) -> BTreeSet<ServiceChain> {
        let mut chains = self.services.values().flat_map(|service| &service.chains);
        if self.stale_chains.is_empty() || chains.any(RecordedChain::is_damaged) {
            return BTreeSet::new();
        }
        std::mem::take(&mut self.stale_chains)
    }

    /// Returns the tree chains of a table that the caller deletes, and records them as deleted.
    pub(crate) fn take_unused_tree_chains(&mut self, table: Table) -> Vec<Box<str>> {
        let all = std::mem::take(&mut self.unused_tree_chains);
        let (unused, rest): (BTreeSet<_>, _) = all.into_iter().partition(|(of, _)| *of == table);
        self.unused_tree_chains = rest;
        unused.into_iter().map(|(_, name)| name).collect()
    }

    /// Returns all Service chains in the kernel, also those to be deleted.
    pub(super) fn all_service_chains(&self) -> impl Iterator<Item = ServiceChain> {
        self.chains().chain(self.stale_chains.iter().copied())
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

    /// Reports whether a tree chain is in use.
    pub(crate) fn has_tree_chain(&self, table: Table, name: &str) -> bool {
        let tree = tree_of(table, name).and_then(|dispatch| self.trees.get(&dispatch));
        tree.is_some_and(|tree| tree.has(name))
    }

    /// Makes a tree of a dispatch chain, of tree chains in the kernel: their names, and whether
    /// they are inner chains. Each is recorded with its desired rules.
    pub(super) fn adopt_tree<'c>(
        &mut self,
        dispatch: DispatchChain,
        chains: impl Iterator<Item = (&'c str, bool)>,
    ) {
        self.make_tree(dispatch);
        let services = &self.services;
        if let Some(tree) = self.trees.get_mut(&dispatch) {
            tree.adopt(chains, &|name, index| rule_text(services, name, index));
        }
    }

    fn make_tree(&mut self, dispatch: DispatchChain) {
        let last_rules = match dispatch {
            DispatchChain::NatServices => self.node_ports_jumps.clone(),
            _ => String::new(),
        };
        let mut tree = DispatchTree::new(dispatch, last_rules);
        for (name, service) in &self.services {
            tree.replace(name, &[], &service.dispatch);
        }
        self.trees.insert(dispatch, tree);
        self.flat.remove(&dispatch);
    }

    fn make_flat(&mut self, dispatch: DispatchChain) {
        let tree = self.trees.remove(&dispatch).into_iter();
        let names: Vec<Box<str>> = tree
            .flat_map(|tree| tree.names().map(Box::from).collect::<Vec<_>>())
            .collect();
        let unused = names.into_iter().map(|name| (dispatch.table(), name));
        self.unused_tree_chains.extend(unused);
    }
}

impl AppliedService {
    pub(super) fn rendered(rules: &ServiceRules) -> Self {
        let mut chains: Vec<_> = rules.chains().map(RecordedChain::of_service).collect();
        chains.sort_unstable_by_key(|recorded| recorded.chain);
        Self {
            chains: chains.into(),
            dispatch: rules.to_dispatch_rules().collect(),
            totals: rules.totals(),
        }
    }

    /// Reports whether there is nothing to record: the Service has no rules and no endpoints.
    fn is_empty(&self) -> bool {
        self.chains.is_empty()
            && self.dispatch.is_empty()
            && self.totals == ServiceTotals::default()
    }

    /// Reports whether the kernel holds the rendered rules of a chain.
    pub(crate) fn holds(&self, rendered: &RenderedChain) -> bool {
        let recorded = self.chain(rendered.chain);
        recorded.is_some_and(|recorded| recorded.holds(rendered.digest))
    }

    /// Returns a chain, if the Service has it in the kernel.
    fn chain(&self, chain: ServiceChain) -> Option<&RecordedChain<ServiceChain>> {
        let at = self
            .chains
            .binary_search_by_key(&chain, |recorded| recorded.chain);
        self.chains.get(at.ok()?)
    }
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
