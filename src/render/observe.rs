//! Compares the rules in the kernel with recorded or rendered ones. The record notes what differs:
//! the next partial payload then restores missing rules and deletes surplus ones.
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

use super::applied_state::AppliedState;
use super::live::{LiveChains, LiveRules};
use crate::model::{ServiceName, Services};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options};
use crate::render::service::{self, AppliedService, DispatchRule, ServiceRules};
use crate::rules::{RulesDigest, Table};
use crate::ruleset::{DispatchChain, DispatchForm, ServiceChain, tree_of};

/// Percentage of the recorded Service chains that the kernel must hold. With fewer, a full restore
/// costs less, because it is streamed, while a partial payload is whole in memory.
const MIN_SAME_PERCENT: usize = 50;

impl AppliedState {
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
                    self.adopt_tree(dispatch, chains);
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
    fixed_chains::note_guarded_damage(&mut applied, read, live, options);
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
        // In large-cluster mode rules for endpoints lack comments, until their Service changes.
        ![Comments::Everywhere, Comments::NotOnEndpoints]
            .into_iter()
            .any(|comments| {
                service::render(&mut rules, name, state, options, comments);
                applied.has_rules(name, &rules)
            })
    };
    let unlike = services
        .all()
        .filter(|(name, state)| !due.contains(*name) && is_unlike(name, state));
    let mut unlike: Vec<_> = unlike.map(|(name, _)| name.clone()).collect();
    let is_gone = |name: &&ServiceName| services.get(name).is_none() && !due.contains(*name);
    unlike.extend(applied.services.keys().filter(is_gone).cloned());
    unlike
}
