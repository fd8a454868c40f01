//! Record of the rules of the proxy in the kernel, and the desired rules of its dispatch chains.
//!
//! The record has a digest of every chain. It changes when rules were written or read. Dispatch
//! rules are kept as they are desired, because a dispatch chain has the rules of all Services, and
//! only some Services are rendered.
//!
//! A comparison notes what differs: the next partial payload restores missing rules and
//! deletes surplus ones.
//!
//! - [`AppliedState::observe`]: what was read, single chains or whole tables, with the record.
//!   Nothing is rendered.
//! - [`adopt`]: whole tables with rendered rules, to adopt what kube-proxy or an earlier run of
//!   this program wrote. If [`check_adoption`] declines, a full restore writes all rules.
//! - [`unlike_rendered`]: the record with rendered rules, without the kernel.
//!
//! Rules of fixed chains and entry jumps are not compared here:
//! [`GuardedChainState`](crate::render::GuardedChainState) does that.
//!
//! Differs from upstream: kube-proxy writes everything at every start, which takes minutes in a
//! large cluster and sets all counters to zero.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashSet;

use super::live::{LiveChains, LiveRules, guarded_damage};
use crate::model::{ServiceName, Services};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options, TreeThresholds};
use crate::render::service::{
    self, AppliedService, DispatchRule, RecordedChain, RuleCounts, ServiceRules, ServiceTotals,
};
use crate::render::tree::{DispatchTree, TreeUpdate};
use crate::rules::{RulesDigest, Table};
use crate::ruleset::{DispatchChain, DispatchForm, Jump, ServiceChain, tree_of};

/// Percentage of the recorded Service chains that the kernel must hold. With fewer, a full restore
/// costs less, because it is streamed, while a partial payload is whole in memory.
const MIN_SAME_PERCENT: usize = 50;

/// Rules of the proxy in the kernel, as far as restores and comparisons have shown.
///
/// A [payload](super::partial_payload) is rendered from it. After the restore, the caller
/// notes the result:
///
/// - It succeeded: [`Self::written`].
/// - It failed, and the kernel has none of it: nothing is to be noted. The Services of the payload
///   stay [due](Self::due).
/// - It failed otherwise: [`Self::maybe_written`].
#[derive(Debug, Default)]
pub struct AppliedState {
    pub(super) services: BTreeMap<ServiceName, AppliedService>,
    /// Flat dispatch chains. One that is not among them is written by the next partial payload.
    pub(super) flat: BTreeMap<DispatchChain, RecordedChain>,
    /// Flat dispatch chains whose desired rules changed since they were written.
    changed: BTreeSet<DispatchChain>,
    pub(super) trees: BTreeMap<DispatchChain, DispatchTree>,
    /// Jumps to `KUBE-NODEPORTS`, the last rules of `KUBE-SERVICES`, as lines with `-A CHAIN`.
    node_ports_jumps: String,
    /// Service chains in the kernel that no Service has, or that may be there. A partial payload
    /// deletes them as soon as no chain is damaged: damaged ones may jump to them.
    pub(super) stale_chains: BTreeSet<ServiceChain>,
    /// Stale Service chains that third-party rules reference; the next partial payload empties
    /// them.
    pub(super) referenced_chains: BTreeSet<ServiceChain>,
    /// Service and tree chains that third-party rules referenced when whole tables were last read.
    /// The kernel would reject their deletion, so a partial payload only empties them.
    referenced: BTreeSet<Box<str>>,
    /// Tree chains in the kernel that no rule of the proxy references, and Service chains of old
    /// releases; the next partial payload deletes them.
    pub(super) unused_chains: BTreeSet<(Table, Box<str>)>,
    /// Services that the next partial payload has to render: some of their chains are damaged, or
    /// their desired dispatch rules were not written.
    pub(super) due: BTreeSet<ServiceName>,
    /// Fixed chains that the next partial payload writes.
    fixed_chains_due: BTreeSet<(Table, &'static str)>,
    /// Missing entry jumps that the next partial payload inserts.
    pub(super) jumps_due: Vec<&'static Jump>,
    /// Numbers of rules in the fixed chains.
    fixed_rule_counts: RuleCounts,
    /// Number of all Service chains.
    service_chain_count: u64,
    /// Number of rules in all Service chains.
    service_chain_rule_count: u64,
    /// Number of rules of Services in each dispatch chain; those of a tree count for its dispatch
    /// chain.
    dispatch_rule_counts: BTreeMap<DispatchChain, u64>,
    totals: ServiceTotals,
}

/// Record of the chains of a partial payload after it was written.
#[derive(Debug, Default)]
pub struct RenderedChains {
    /// Chains of the rendered Services.
    pub(crate) services: Vec<(ServiceName, AppliedService)>,
    pub(crate) flat: Vec<(DispatchChain, RecordedChain)>,
    pub(crate) trees: Vec<(DispatchChain, TreeUpdate)>,
    /// Stale Service chains that the payload deletes.
    pub(crate) stale: BTreeSet<ServiceChain>,
    /// Unused chains that it deletes.
    pub(crate) unused: BTreeSet<(Table, Box<str>)>,
}

impl RenderedChains {
    /// Returns the rendered Services, with the rules that are in the kernel after the payload.
    pub(crate) fn services(&self) -> impl Iterator<Item = (&ServiceName, &AppliedService)> + Clone {
        self.services.iter().map(|(name, service)| (name, service))
    }
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

    /// Returns how many entries of the legacy tables are chains of Services, two for each, and
    /// rules of the proxy. Chains that always exist are not counted, nor are stale ones.
    pub(crate) fn entry_counts(&self) -> RuleCounts {
        let mut entries = self.rule_counts();
        entries.nat += 2 * self.service_chain_count;
        for (dispatch, tree) in &self.trees {
            entries.add(dispatch.table(), 2 * tree.len() as u64);
        }
        entries
    }

    /// Returns the number of tree chains in the kernel.
    pub fn tree_chain_count(&self) -> usize {
        self.trees.values().map(DispatchTree::len).sum()
    }

    /// Returns the sums over all applied Services.
    pub fn totals(&self) -> ServiceTotals {
        self.totals
    }

    /// Returns every chain of every Service.
    pub fn chains(&self) -> impl Iterator<Item = ServiceChain> {
        self.services
            .values()
            .flat_map(|service| service.chains.iter().map(|recorded| recorded.chain))
    }

    /// Returns the recorded rules of all Services that have some.
    pub(crate) fn services(&self) -> impl Iterator<Item = (&ServiceName, &AppliedService)> + Clone {
        self.services.iter()
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

    /// Returns the desired rules of a flat dispatch chain, and its record with these, if it may
    /// have to be written.
    pub(crate) fn changed_flat_chain(
        &self,
        dispatch: DispatchChain,
    ) -> Option<(String, RecordedChain)> {
        let recorded = self.flat.get(&dispatch);
        if !self.changed.contains(&dispatch) && recorded.is_some_and(|chain| !chain.is_damaged()) {
            return None;
        }
        let rules = self.flat_rules(dispatch);
        let desired = RecordedChain::of_lines(&rules);
        let is_same = recorded.is_some_and(|chain| chain.holds(desired.digest()));
        (!is_same).then_some((rules, desired))
    }

    /// Returns the desired rules of a flat dispatch chain, as lines with `-A CHAIN`: those of
    /// Services, sorted by name, and last the jumps to `KUBE-NODEPORTS`.
    ///
    /// Differs from upstream: kube-proxy writes Services in random order.
    pub(crate) fn flat_rules(&self, dispatch: DispatchChain) -> String {
        let mut lines = String::new();
        let services = self.services.values();
        let rules = services.flat_map(|service| &service.dispatch);
        for rule in rules.filter(|rule| rule.chain == dispatch) {
            lines.extend(["-A ", dispatch.name(), &String::from_utf8_lossy(&rule.text)]);
        }
        if dispatch == DispatchChain::NatServices {
            lines.push_str(&self.node_ports_jumps);
        }
        lines
    }

    /// Records that the kernel has a flat dispatch chain with its desired rules, and returns these.
    pub(crate) fn record_flat_chain(&mut self, dispatch: DispatchChain) -> String {
        let rules = self.flat_rules(dispatch);
        self.flat.insert(dispatch, RecordedChain::of_lines(&rules));
        rules
    }

    /// Returns the Services that the next partial payload has to render.
    pub fn due(&self) -> impl Iterator<Item = &ServiceName> {
        self.due.iter()
    }

    /// Makes the next partial payload render a Service.
    pub fn add_due(&mut self, name: &ServiceName) {
        self.due.insert(name.clone());
    }

    /// Leaves the chains of a Service as they are, damaged or not.
    pub fn remove_due(&mut self, name: &ServiceName) {
        self.due.remove(name);
    }

    /// Makes the next partial payload write a fixed chain. Returns whether it was not due before.
    pub(crate) fn add_due_fixed_chain(&mut self, chain: (Table, &'static str)) -> bool {
        self.fixed_chains_due.insert(chain)
    }

    /// Leaves a fixed chain as it is.
    pub(crate) fn remove_due_fixed_chain(&mut self, chain: (Table, &'static str)) {
        self.fixed_chains_due.remove(&chain);
    }

    /// Replaces the entry jumps that the next partial payload inserts, in these tables.
    pub(crate) fn set_due_jumps(&mut self, tables: &BTreeSet<Table>, missing: &[&'static Jump]) {
        self.jumps_due.retain(|jump| !tables.contains(&jump.table));
        for jump in missing {
            if !self.jumps_due.contains(jump) {
                self.jumps_due.push(jump);
            }
        }
    }

    /// Returns the fixed chains and entry jumps that the next partial payload writes.
    pub(crate) const fn guarded_due(
        &self,
    ) -> (&BTreeSet<(Table, &'static str)>, &Vec<&'static Jump>) {
        (&self.fixed_chains_due, &self.jumps_due)
    }

    /// Replaces the jumps to `KUBE-NODEPORTS`, lines with `-A CHAIN`.
    pub(crate) fn set_node_ports_jumps(&mut self, jumps: String) {
        if self.node_ports_jumps == jumps {
            return;
        }
        match self.trees.get_mut(&DispatchChain::NatServices) {
            Some(tree) => tree.set_last_rules(&jumps),
            None => drop(self.changed.insert(DispatchChain::NatServices)),
        }
        self.node_ports_jumps = jumps;
    }

    /// Records the rendered rules of a Service as written.
    pub(crate) fn record(&mut self, name: &ServiceName, rules: &ServiceRules) {
        self.insert(name, AppliedService::rendered(rules));
    }

    /// Returns the chains of a Service in the kernel, and its desired dispatch rules.
    pub(crate) fn service(&self, name: &ServiceName) -> Option<&AppliedService> {
        self.services.get(name)
    }

    /// Records that a partial payload was written.
    pub fn written(&mut self, rendered: RenderedChains) {
        for (name, service) in rendered.services {
            for recorded in &service.chains {
                self.stale_chains.remove(&recorded.chain);
            }
            self.due.remove(&name);
            self.insert(&name, service);
        }
        self.flat.extend(rendered.flat);
        self.changed.clear();
        for (dispatch, tree) in rendered.trees {
            if let Some(recorded) = self.trees.get_mut(&dispatch) {
                recorded.written(tree);
            }
        }
        self.stale_chains
            .retain(|chain| !rendered.stale.contains(chain));
        self.referenced_chains.clear();
        let mut unused = std::mem::take(&mut self.unused_chains);
        unused.retain(|chain| !rendered.unused.contains(chain));
        unused.retain(|(table, name)| !self.has_tree_chain(*table, name));
        self.unused_chains = unused;
        self.fixed_chains_due.clear();
        self.jumps_due.clear();
    }

    /// Records that the kernel may have what a partial payload writes, or only a part of it: its
    /// chains are damaged, and new ones are stale until they are written again.
    pub fn maybe_written(&mut self, rendered: RenderedChains) {
        for (name, rendered) in rendered.services {
            self.due.insert(name.clone());
            let new = rendered.chains.iter().map(|recorded| recorded.chain);
            let Some(service) = self.services.get_mut(&name) else {
                self.stale_chains.extend(new);
                continue;
            };
            for recorded in &mut service.chains {
                let after = rendered.chain(recorded.chain);
                let is_same = after.is_some_and(|after| after.holds(recorded.digest()));
                if !is_same {
                    recorded.set_damaged(true);
                }
            }
            let new = new.filter(|chain| service.chain(*chain).is_none());
            self.stale_chains.extend(new);
        }
        for (dispatch, _) in rendered.flat {
            if let Some(recorded) = self.flat.get_mut(&dispatch) {
                recorded.set_damaged(true);
            }
        }
        for (dispatch, rendered) in rendered.trees {
            if let Some(tree) = self.trees.get_mut(&dispatch) {
                let new = rendered.chain_names().filter(|name| !tree.has(name));
                let new = new.map(|name| (dispatch.table(), name.into()));
                self.unused_chains.extend(new);
                tree.maybe_written(&rendered);
            }
        }
    }

    /// Replaces the desired dispatch rules of a Service. It is due until they are written.
    pub(crate) fn set_dispatch(&mut self, name: &ServiceName, dispatch: &[DispatchRule]) {
        self.due.insert(name.clone());
        let before = self.services.get(name);
        if before.map_or(&[][..], |before| &before.dispatch) != dispatch {
            let before = before.cloned().unwrap_or_default();
            let dispatch = dispatch.into();
            self.insert(name, AppliedService { dispatch, ..before });
        }
    }

    /// Makes the dispatch rules of a Service those that it had `before` again. It is not due then.
    pub(crate) fn undo_dispatch(&mut self, name: &ServiceName, before: &AppliedService) {
        self.set_dispatch(name, &before.dispatch);
        self.due.remove(name);
    }

    /// Returns the comments that the recorded rules of a Service have.
    pub(super) fn comments_of(&self, name: &ServiceName) -> Comments {
        let recorded = self.services.get(name);
        recorded.map(|service| service.comments).unwrap_or_default()
    }

    /// Reports whether these are the recorded rules of a Service.
    pub(super) fn has_rules(&self, name: &ServiceName, rules: &ServiceRules) -> bool {
        let none = AppliedService::default();
        let recorded = self.services.get(name).unwrap_or(&none);
        let dispatch = recorded.dispatch.iter();
        rules.chains().count() == recorded.chains.len()
            && rules
                .recorded()
                .all(|(rendered, _)| recorded.holds(&rendered))
            && rules
                .dispatch_rules()
                .eq(dispatch.map(|rule| (rule.chain, &*rule.text)))
    }

    /// Replaces the rules of a Service.
    pub(super) fn insert(&mut self, name: &ServiceName, service: AppliedService) {
        // Counted before it moves into the map, which returns the rules to subtract.
        self.count_rules(&service, |sum, count| *sum += count);
        self.totals += service.totals;
        let before = self.services.get(name).map(|service| &*service.dispatch);
        let (before, after) = (before.unwrap_or_default(), &*service.dispatch);
        if before != after {
            for tree in self.trees.values_mut() {
                tree.replace(name, before, after);
            }
            let changed = self.flat.keys().filter(|dispatch| {
                let of_chain = |rule: &&DispatchRule| rule.chain == **dispatch;
                let before = before.iter().filter(of_chain);
                before.ne(after.iter().filter(of_chain))
            });
            self.changed.extend(changed);
        }
        let previous = if service.is_empty() {
            self.services.remove(name)
        } else {
            self.services.insert(name.clone(), service)
        };
        let previous = previous.unwrap_or_default();
        self.count_rules(&previous, |sum, count| *sum -= count);
        self.totals -= previous.totals;
    }

    /// Updates the numbers of chains and rules for those of a Service. `update` adds to a sum or
    /// subtracts from it.
    fn count_rules(&mut self, service: &AppliedService, update: fn(&mut u64, u64)) {
        update(&mut self.service_chain_count, service.chains.len() as u64);
        let rule_counts = service.chains.iter().map(|recorded| recorded.rule_count);
        let rule_count = rule_counts.map(u64::from).sum();
        update(&mut self.service_chain_rule_count, rule_count);
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

    /// Returns the stale chains that this payload deletes: none while a Service that is not
    /// rendered has a damaged chain, which may jump to one.
    pub(crate) fn deletable_chains(&self, rendered: &RenderedChains) -> BTreeSet<ServiceChain> {
        if self.stale_chains.is_empty() {
            return BTreeSet::new();
        }
        let is_rendered: BTreeSet<_> = rendered.services.iter().map(|(name, _)| name).collect();
        let others = self.services.iter();
        let mut others = others.filter(|(name, _)| !is_rendered.contains(name));
        if others.any(|(_, service)| service.is_damaged()) {
            return BTreeSet::new();
        }
        let mut stale = self.stale_chains.clone();
        let services = rendered.services.iter().map(|(_, service)| service);
        for recorded in services.flat_map(|service| &service.chains) {
            stale.remove(&recorded.chain);
        }
        stale
    }

    /// Returns the stale Service chains to empty: those that none of these Services has.
    pub(crate) fn chains_to_empty(&self, rendered: &RenderedChains) -> Vec<ServiceChain> {
        let services = rendered.services.iter().map(|(_, service)| service);
        let is_desired = |chain: &&ServiceChain| {
            services
                .clone()
                .any(|service| service.chain(**chain).is_some())
        };
        let chains = self.referenced_chains.iter();
        chains.filter(|chain| !is_desired(chain)).copied().collect()
    }

    /// Notes which chains third-party rules reference, after a reading of whole tables.
    pub(crate) fn note_references(&mut self, live: &LiveChains) {
        self.referenced.clone_from(live.referenced());
    }

    /// Reports whether a partial payload deletes a stale chain: as far as is known, no third-party
    /// rule references it. If one does, the restore fails, and a full one follows, which reads all
    /// references.
    pub(crate) fn can_delete(&self, chain: &str) -> bool {
        !self.referenced.contains(chain)
    }

    /// Returns the unused chains of a table.
    pub(crate) fn unused_chains(&self, table: Table) -> Vec<Box<str>> {
        let unused = self.unused_chains.iter();
        let unused = unused.filter(|(of, _)| *of == table);
        unused.map(|(_, name)| name.clone()).collect()
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
        self.unused_chains.extend(unused);
    }

    /// Returns the chains and entry jumps of a kernel that has the recorded chains, those to be
    /// deleted included, and all entry jumps except `missing`; without references of third-party
    /// rules, which only a reading finds.
    pub(crate) fn live_chains(&self, missing: &[&'static Jump]) -> LiveChains {
        let service_chains = self.chains().chain(self.stale_chains.iter().copied());
        let tree_chains = self.tree_chains();
        let tree_chains = tree_chains.map(|(table, name)| (table, name.into()));
        let tree_chains = tree_chains.chain(self.unused_chains.iter().cloned());
        LiveChains::assumed(service_chains.collect(), tree_chains.collect(), missing)
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

    /// Compares the rules that were read with the record, notes which chains are damaged and which
    /// are not anymore, and returns the damaged ones. If whole tables were read, chains that are
    /// not recorded differ as well: the next partial payload deletes them, or empties those that a
    /// third-party rule references, as `live` knows.
    pub(crate) fn observe(
        &mut self,
        read: &LiveRules,
        live: &LiveChains,
    ) -> Vec<(Table, Box<str>)> {
        let mut differing = Vec::new();
        for (name, service) in &mut self.services {
            for recorded in &mut service.chains {
                if recorded.observe(read.service_chain(recorded.chain)) {
                    self.due.insert(name.clone());
                    differing.push((Table::Nat, recorded.chain.name().into()));
                }
            }
        }
        let mut add = |table, name: &str| differing.push((table, name.into()));
        for (dispatch, recorded) in &mut self.flat {
            let (table, name) = (dispatch.table(), dispatch.name());
            if recorded.observe(read.dispatch_or_tree_chain(table, name)) {
                add(table, name);
            }
        }
        for (dispatch, tree) in &mut self.trees {
            let table = dispatch.table();
            let damaged = tree.observe(|name| read.dispatch_or_tree_chain(table, name));
            for name in damaged {
                add(table, &name);
            }
        }
        if read.is_of_tables() {
            self.note_references(live);
            self.unused_chains.clear();
        }
        for (table, name, _) in read.tree_chains() {
            if !self.has_tree_chain(table, name) && live.can_delete(name) {
                self.unused_chains.insert((table, name.into()));
                add(table, name);
            }
        }
        for name in live.unparsed_chains().filter(|name| live.can_delete(name)) {
            self.unused_chains.insert((Table::Nat, name.into()));
            add(Table::Nat, name);
        }
        if read.is_of_tables() {
            let unrecorded = self.unrecorded_chains(read);
            let (stale, referenced): (BTreeSet<_>, BTreeSet<_>) = unrecorded
                .into_iter()
                .partition(|chain| live.can_delete(&chain.name()));
            let empty = RulesDigest::of_lines("");
            let is_filled = |chain: &ServiceChain| {
                !read
                    .service_chain(*chain)
                    .is_some_and(|rules| rules.is_same(empty))
            };
            self.referenced_chains = referenced.into_iter().filter(is_filled).collect();
            for chain in &self.referenced_chains {
                add(Table::Nat, &chain.name());
            }
            for chain in &stale {
                add(Table::Nat, &chain.name());
            }
            self.stale_chains = stale;
        }
        differing
    }

    /// Returns the Service chains in the kernel that are not recorded.
    fn unrecorded_chains(&self, read: &LiveRules) -> BTreeSet<ServiceChain> {
        let found = self.chains().filter(|chain| read.has_service_chain(*chain));
        // Usually there are none, and a set of all recorded chains would take megabytes.
        if found.count() == read.service_chains().len() {
            return BTreeSet::new();
        }
        let recorded: HashSet<ServiceChain> = self.chains().collect();
        let chains = read.service_chains();
        chains.filter(|chain| !recorded.contains(chain)).collect()
    }

    /// Leaves the due entry jumps that the kernel has by now as they are.
    pub(crate) fn retain_due_jumps(&mut self, live: &LiveChains) {
        self.jumps_due.retain(|jump| !live.has(jump));
    }

    /// Reports whether the kernel has a chain of a Service with its recorded rules.
    pub(crate) fn has_service_rules(&self) -> bool {
        let mut chains = self.services.values().flat_map(|service| &service.chains);
        chains.any(|recorded| !recorded.is_damaged())
    }

    /// Reports whether most of the recorded Service chains are damaged.
    pub(crate) fn is_mostly_damaged(&self) -> bool {
        let chains = self.services.values().flat_map(|service| &service.chains);
        let (mut all, mut same) = (0, 0);
        for recorded in chains {
            all += 1;
            same += usize::from(!recorded.is_damaged());
        }
        same * 100 < all * MIN_SAME_PERCENT
    }

    /// Returns the first Service that is `eligible` and has chains.
    pub fn first_with_chains(
        &self,
        eligible: impl Fn(&ServiceName) -> bool,
    ) -> Option<&ServiceName> {
        let mut services = self.services.iter();
        let found = services.find(|(name, service)| !service.chains.is_empty() && eligible(name));
        found.map(|(name, _)| name)
    }

    /// Marks all chains of a Service as damaged, to be written with it, or takes the marks back.
    pub fn set_damaged(&mut self, name: &ServiceName, is_damaged: bool) {
        let service = self.services.get_mut(name);
        for recorded in service.into_iter().flat_map(|service| &mut service.chains) {
            recorded.set_damaged(is_damaged);
        }
    }

    /// Records every dispatch chain, flat or as a tree, with its desired rules. Its form depends on
    /// that in the kernel.
    fn adopt_dispatch_chains(&mut self, read: &LiveRules, options: &Options) {
        for dispatch in DispatchChain::ALL {
            let rule_count = self.dispatch_rule_count(dispatch);
            let thresholds = options.tree_thresholds;
            match thresholds.form(dispatch, rule_count, read.form(dispatch)) {
                DispatchForm::Flat => drop(self.record_flat_chain(dispatch)),
                DispatchForm::Tree => {
                    let chains = read
                        .tree_chains()
                        .filter(|(table, name, _)| tree_of(*table, name) == Some(dispatch));
                    let chains = chains.map(|(_, name, chain)| (name, chain.is_inner));
                    self.make_tree(dispatch);
                    if let Some(tree) = self.trees.get_mut(&dispatch) {
                        tree.adopt(chains, &self.services);
                    }
                }
            }
        }
    }
}

/// Makes the record of a kernel of which nothing was known: the rules of `services` as rendered, as
/// far as the kernel has them. The Services of which it lacks some are due.
pub(crate) fn adopt(
    read: &LiveRules,
    live: &LiveChains,
    services: &dyn Services,
    options: &Options,
) -> AppliedState {
    let fixed_rule_counts = fixed_chains::rule_counts(options);
    let jumps = fixed_chains::node_ports_jumps(options);
    let mut applied = AppliedState::without_services(fixed_rule_counts, jumps);
    let endpoints = services
        .all()
        .map(|(_, state)| service::count_endpoints(state))
        .sum();
    // Rules that another process wrote with other comments are written again, once.
    let comments = Comments::for_cluster(endpoints, options);
    let mut rules = ServiceRules::default();
    for (name, state) in services.all() {
        service::render(&mut rules, name, state, options, comments);
        let mut service = AppliedService::rendered(&rules);
        let has_rule = |rule: &DispatchRule| {
            let text = str::from_utf8(&rule.text).unwrap_or_default();
            read.has_dispatch_rule(rule.chain.table(), text.trim_ascii())
        };
        if !service.dispatch.iter().all(has_rule) {
            // Only those that the kernel has: a chain that another one jumps to may be missing.
            let found = service.dispatch.into_iter().filter(has_rule);
            service.dispatch = found.collect();
            applied.due.insert(name.clone());
        }
        applied.insert(name, service);
    }
    applied.adopt_dispatch_chains(read, options);
    applied.observe(read, live);
    let (chains, jumps) = guarded_damage(read, live, options);
    applied.fixed_chains_due = chains;
    applied.jumps_due = jumps;
    applied
}

/// Reason, as logs have it, to decline adoption: a shared chain, canary or entry jump is missing,
/// or a fixed chain holds other rules. A node without rules is such a case.
pub(crate) const INCOMPLETE_SHARED_CHAINS: &str = "a KUBE- chain shared by all Services, or a jump \
     from a built-in chain, is missing or differs";

/// Returns the reason, as logs have it, for which a full restore has to write all rules instead of
/// what differs from the record that [`adopt`] made.
pub(crate) fn check_adoption(
    applied: &AppliedState,
    live: &LiveChains,
) -> Result<(), &'static str> {
    let (damaged_fixed_chains, _) = applied.guarded_due();
    if !damaged_fixed_chains.is_empty() {
        return Err(INCOMPLETE_SHARED_CHAINS);
    }
    if live.unparsed_chains().any(|name| !live.can_delete(name)) {
        return Err("third-party rules jump to chains of old releases, such as KUBE-XLB-");
    }
    if applied.is_mostly_damaged() {
        return Err("most rules differ");
    }
    Ok(())
}

/// Renders all Services anew and compares them with the record; returns those that differ, except
/// those in `due`, which the next sync renders. There are none if partial payloads add up.
pub(crate) fn unlike_rendered(
    applied: &AppliedState,
    services: &dyn Services,
    options: &Options,
    due: &BTreeSet<ServiceName>,
) -> Vec<ServiceName> {
    let mut rules = ServiceRules::default();
    let mut is_unlike = |name: &ServiceName, state| {
        service::render(&mut rules, name, state, options, applied.comments_of(name));
        !applied.has_rules(name, &rules)
    };
    let others = services.all().filter(|(name, _)| !due.contains(*name));
    let unlike = others.filter(|(name, state)| is_unlike(name, state));
    let mut unlike: Vec<_> = unlike.map(|(name, _)| name.clone()).collect();
    let is_gone = |name: &&ServiceName| services.get(name).is_none() && !due.contains(*name);
    unlike.extend(applied.services.keys().filter(is_gone).cloned());
    unlike
}
