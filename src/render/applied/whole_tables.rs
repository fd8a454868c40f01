//! Compares the rules of whole tables: at the start with rendered ones, to adopt the rules of an
//! earlier process or of a kube-proxy ([`adopt`]), and later with recorded ones, to verify the
//! proxy's own rules ([`verify_tables`]).
//!
//! Nothing is written here. Rules that the kernel has already, in any spelling, are recorded in a
//! new [`AppliedState`] as if they had been restored; a partial payload then writes the rest. For
//! a [`DeclineReason`] no applied state is made, and a full restore writes everything.
//!
//! Differs from upstream: kube-proxy writes everything at every start, which takes minutes in a
//! large cluster and sets all counters to zero.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::guard::has_only_desired_rules;
use super::live::{LiveChains, LiveRules, LiveTreeChain};
use super::single_chains::{lines_of, remove_node_ports_jumps};
use super::state::{AppliedService, AppliedState, RecordedChain, leftover_service};
use super::unmatched_rules::{UnmatchedRules, are_in_order};
use crate::model::{ServiceName, Services};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options};
use crate::render::service::{self, DispatchKey, DispatchRule, ServiceRules, ServiceTotals};
use crate::rules::{RulesDigest, Table};
use crate::ruleset::{
    DispatchChain, DispatchDestination, DispatchForm, FILTER_CHAINS, KUBE_FIREWALL, NAT_CHAINS,
    ServiceChain, tree_of,
};

/// Percentage of the expected Service chains that the kernel must hold with the same rules. With
/// fewer, a full restore costs less, because it is streamed, while a partial payload is whole in
/// memory.
const MIN_SAME_PERCENT: usize = 50;

/// Result of a comparison of the rules in the kernel with the rendered ones.
#[derive(Debug, Default)]
pub(crate) struct ComparedTables {
    /// Rules in the kernel, as if they had been restored.
    pub applied: AppliedState,
    /// Services that are dirty because of the comparison: those whose rules differ, and the
    /// leftover Service, if it has rules or chains.
    pub differing: Vec<ServiceName>,
    /// Roots and tree chains that the next payload writes or deletes.
    pub differing_tree_chains: Vec<(Table, Box<str>)>,
    /// `KUBE-SERVICES` does not end with the jumps to `KUBE-NODEPORTS`; the next payload appends
    /// them.
    pub lacks_node_ports_jumps: bool,
}

/// Reason for which [`adopt`] or [`verify_tables`] does not take the live rules as the applied
/// state, so that a full restore has to write all rules. It is about the rules in the kernel; a
/// [`RerenderReason`](crate::render::RerenderReason) is about a change of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclineReason {
    /// A table could not be read.
    Unreadable,
    /// A dispatch chain, fixed chain, canary or entry jump is missing from this table, or a fixed
    /// chain holds other rules. A node without rules is such a case.
    DispatchOrFixedChains(Table),
    /// There is a Service chain whose name [`ServiceChain`] cannot represent. The applied state
    /// cannot record it, so no partial payload could delete it; a full restore does.
    UnparsedChain,
    /// A third-party rule references a stale chain.
    Referenced,
    /// `KUBE-SERVICES` does not end with the jumps to `KUBE-NODEPORTS`.
    NodePorts,
    /// Most Service chains differ, so that most rules would be written anyway.
    Different,
}

impl DeclineReason {
    /// Returns the reason as logs have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "a table cannot be read",
            Self::DispatchOrFixedChains(_) => {
                "a KUBE- chain shared by all Services, or a jump from a built-in chain, is \
                 missing or differs"
            }
            Self::UnparsedChain => {
                "nat has chains named like Service chains, of a kind that only old releases write \
                 (such as KUBE-XLB-) or with a malformed name"
            }
            Self::Referenced => "third-party rules jump to stale Service chains",
            Self::NodePorts => "KUBE-SERVICES does not end with the jumps to KUBE-NODEPORTS",
            Self::Different => "most rules differ",
        }
    }
}

/// Strictness of a comparison, which depends on its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// The rules are of another process. Misplaced jumps to `KUBE-NODEPORTS`, and stale Service
    /// chains that third-party rules reference, are reasons to decline.
    Adoption,
    /// The rules were restored by this process. Misplaced jumps are appended again, and stale
    /// chains that third-party rules reference are kept.
    Verification,
}

/// Compares the rules in the kernel with those recorded in `before`. The new applied state replaces
/// it, Service by Service: memory never holds both.
///
/// Dispatch chains have to exist. Rules of fixed chains and entry jumps are not compared:
/// [`GuardedChainState`](super::GuardedChainState) does that.
pub(crate) fn verify_tables(
    (live_rules, live_chains): (LiveRules, &LiveChains),
    options: &Options,
    before: AppliedState,
) -> Result<ComparedTables, DeclineReason> {
    for dispatch in DispatchChain::ALL {
        if !live_rules.has(dispatch.table(), dispatch.name()) {
            return Err(DeclineReason::DispatchOrFixedChains(dispatch.table()));
        }
    }
    let mut comparison = LiveComparison::new(live_rules, options, Strictness::Verification)?;
    let leftover = leftover_service();
    for (name, recorded) in before.services {
        if name != leftover {
            comparison.observe(&name, recorded);
        }
    }
    comparison.finish(live_chains)
}

/// Renders all Services anew and compares them with the record; returns those that differ, except
/// those in `changing`. There are none if partial payloads add up to a full one.
pub(crate) fn unlike_rendered(
    applied: &AppliedState,
    services: &dyn Services,
    options: &Options,
    changing: &BTreeSet<ServiceName>,
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
        .filter(|(name, state)| !changing.contains(*name) && is_unlike(name, state));
    let mut unlike: Vec<_> = unlike.map(|(name, _)| name.clone()).collect();
    let leftover = leftover_service();
    let is_gone = |name: &&ServiceName| {
        services.get(name).is_none() && !changing.contains(*name) && **name != leftover
    };
    unlike.extend(applied.services.keys().filter(is_gone).cloned());
    unlike
}

/// Compares the rules in the kernel with those of `services`, of which none is known to be
/// applied.
pub(crate) fn adopt(
    live_rules: LiveRules,
    live_chains: &LiveChains,
    services: &dyn Services,
    options: &Options,
) -> Result<ComparedTables, DeclineReason> {
    check_shared_chains(&live_rules, options)?;
    if live_rules.has_unparsed_chain {
        return Err(DeclineReason::UnparsedChain);
    }
    let mut comparison = LiveComparison::new(live_rules, options, Strictness::Adoption)?;
    let endpoints = services
        .all()
        .map(|(_, state)| service::count_endpoints(state))
        .sum();
    let comments = Comments::for_cluster(endpoints, options);
    // Rules that another process wrote with other comments are written again, once.
    let mut rendered = ServiceRules::default();
    for (name, state) in services.all() {
        service::render(&mut rendered, name, state, options, comments);
        comparison.observe(name, AppliedService::rendered(&rendered));
    }
    comparison.finish(live_chains)
}

/// Returns the Services that have no chain in the kernel; none if nat was not read.
pub(crate) fn services_without_chains(
    live: &LiveChains,
    services: &dyn Services,
    options: &Options,
) -> Vec<ServiceName> {
    if !live.is_read(Table::Nat) {
        return Vec::new();
    }
    let mut rules = ServiceRules::default();
    let mut all = Vec::new();
    for (name, state) in services.all() {
        service::render(&mut rules, name, state, options, Comments::NotOnEndpoints);
        if !rules
            .chains()
            .any(|rendered| live.has_service_chain(rendered.chain))
        {
            all.push(name.clone());
        }
    }
    all
}

/// Checks the filter and nat tables: that the shared chains exist, and that the rules of fixed
/// chains and the entry jumps are those that a full restore writes.
fn check_shared_chains(rules: &LiveRules, options: &Options) -> Result<(), DeclineReason> {
    let are_complete = |table, chains: &[&str]| {
        let listing = rules.listing(table);
        chains.iter().all(|chain| rules.has(table, chain))
            && has_only_desired_rules(table, listing, options)
    };
    if !rules.has(Table::Filter, KUBE_FIREWALL) || !are_complete(Table::Filter, &FILTER_CHAINS) {
        return Err(DeclineReason::DispatchOrFixedChains(Table::Filter));
    }
    if !are_complete(Table::Nat, &NAT_CHAINS) {
        return Err(DeclineReason::DispatchOrFixedChains(Table::Nat));
    }
    Ok(())
}

/// Comparison of live rules with rendered or recorded ones, Service by Service. Rules and chains
/// that are not matched to a Service in the end are recorded under the leftover Service.
struct LiveComparison {
    /// Service chains in the kernel that have not been matched to a Service yet.
    chains: HashMap<ServiceChain, RulesDigest>,
    /// Rules of the dispatch chains that are to be flat, whatever they are in the kernel, that have
    /// not been matched to a Service yet.
    flat: BTreeMap<DispatchChain, UnmatchedRules>,
    /// Rules of the dispatch chains that are to be trees, whatever they are in the kernel.
    roots: BTreeMap<DispatchChain, LiveTreeChain>,
    /// Tree chains in the kernel.
    tree_chains: BTreeMap<(Table, Box<str>), LiveTreeChain>,
    applied: AppliedState,
    differing: Vec<ServiceName>,
    /// Number of expected chains.
    expected_count: usize,
    /// Number of expected chains that the kernel holds with the same rules.
    same_count: usize,
    lacks_node_ports_jumps: bool,
    strictness: Strictness,
}

impl LiveComparison {
    fn new(
        mut rules: LiveRules,
        options: &Options,
        strictness: Strictness,
    ) -> Result<Self, DeclineReason> {
        let mut jumps = fixed_chains::node_ports_jumps(options);
        let nat_services = rules.dispatch_rules_mut(DispatchChain::NatServices);
        let lacks_node_ports_jumps = !remove_node_ports_jumps(nat_services, &jumps);
        if lacks_node_ports_jumps {
            if strictness == Strictness::Adoption {
                return Err(DeclineReason::NodePorts);
            }
            // If none is recorded, the next payload appends them.
            jumps.clear();
        }
        let tree_chains = std::mem::take(&mut rules.tree_chains);
        let (mut flat, mut roots) = (BTreeMap::new(), BTreeMap::new());
        for chain in DispatchChain::ALL {
            let rules = std::mem::take(rules.dispatch_rules_mut(chain));
            let of_tree = tree_chains.iter();
            let of_tree = of_tree.filter(|((table, name), _)| tree_of(*table, name) == Some(chain));
            let in_tree = of_tree.map(|(_, chain)| chain.rule_count);
            let in_tree = in_tree.reduce(|sum, count| sum + count);
            let parse = || LiveTreeChain::of_lines(chain.table(), &lines_of(chain.name(), &rules));
            // A chain without tree chains may have very many rules, which are not parsed again
            // unless it becomes a tree.
            let root = in_tree.map(|_| parse());
            let (before, in_root) = match &root {
                Some(root) if root.has_jumps => (DispatchForm::Tree, root.rule_count),
                _ => (DispatchForm::Flat, rules.len() as u64),
            };
            let rule_count = in_root + in_tree.unwrap_or_default();
            match options.tree_thresholds.form(chain, rule_count, before) {
                DispatchForm::Tree => drop(roots.insert(chain, root.unwrap_or_else(parse))),
                DispatchForm::Flat => drop(flat.insert(chain, UnmatchedRules::new(rules))),
            }
        }
        let fixed_rule_counts = fixed_chains::rule_counts(options);
        Ok(Self {
            chains: rules.chains,
            flat,
            roots,
            tree_chains,
            applied: AppliedState::without_services(fixed_rule_counts, jumps),
            differing: Vec::new(),
            expected_count: 0,
            same_count: 0,
            lacks_node_ports_jumps,
            strictness,
        })
    }

    /// Records the rules of one Service that the kernel has of these: the chains with the same
    /// rules, those with other rules as unknown, and those rules of flat chains that are found. All
    /// of its rules in trees are recorded: whether the kernel has them is compared later, chain by
    /// chain.
    fn observe(&mut self, name: &ServiceName, expected: AppliedService) {
        let (mut chains, mut is_same) = (Vec::with_capacity(expected.chains.len()), true);
        for chain in &expected.chains {
            self.expected_count += 1;
            match self.chains.remove(&chain.chain) {
                Some(found) if found == chain.digest && found.is_known() => {
                    self.same_count += 1;
                    chains.push(*chain);
                }
                found => {
                    is_same = false;
                    chains.extend(found.map(|_| RecordedChain::unknown(chain.chain)));
                }
            }
        }
        // Rules of a flat chain are ordered by their position in the kernel, rules of a tree as
        // they were rendered. The two are never compared, as a rule group is in one dispatch chain.
        let mut rules: Vec<(usize, DispatchRule)> = Vec::with_capacity(expected.dispatch.len());
        for (expected_position, rule) in expected.dispatch.into_iter().enumerate() {
            let position = match self.flat.get_mut(&rule.key.chain) {
                Some(flat) => flat.take(&rule.text),
                None => Some(expected_position),
            };
            match position {
                Some(position) => rules.push((position, rule)),
                None => is_same = false,
            }
        }
        is_same &= are_in_order(rules.iter().map(|(at, rule)| (*at, rule)));
        rules.sort_by_key(|(position, rule)| (rule.key, *position));
        let rules = rules.into_iter().map(|(_, rule)| rule);
        let service = AppliedService::new(chains, rules.collect(), expected.totals);
        self.applied.insert(name, service);
        if !is_same {
            self.differing.push(name.clone());
        }
    }

    /// Records what was not matched to a Service under the leftover Service, so that the next
    /// partial payload deletes it.
    fn finish(mut self, live: &LiveChains) -> Result<ComparedTables, DeclineReason> {
        if self.same_count * 100 < self.expected_count * MIN_SAME_PERCENT {
            return Err(DeclineReason::Different);
        }
        let mut stale: Vec<_> = self.chains.keys().copied().collect();
        match self.strictness {
            Strictness::Adoption if stale.iter().any(|chain| !live.can_delete(&chain.name())) => {
                return Err(DeclineReason::Referenced);
            }
            Strictness::Adoption => {}
            // The kernel rejects the deletion of a chain that third-party rules reference.
            Strictness::Verification => stale.retain(|chain| live.can_delete(&chain.name())),
        }
        let chains = stale.into_iter().map(RecordedChain::unknown).collect();
        let mut rules = Vec::new();
        for (chain, unmatched) in std::mem::take(&mut self.flat) {
            rules.extend(unmatched.into_unmatched().map(|rule| DispatchRule {
                key: DispatchKey {
                    chain,
                    port_index: None,
                },
                destination: DispatchDestination::SeveralOrUnknown,
                text: rule.text,
            }));
        }
        let leftover = leftover_service();
        let service = AppliedService::new(chains, rules, ServiceTotals::default());
        self.applied.insert(&leftover, service);
        if self.applied.has(&leftover) {
            self.differing.push(leftover);
        }
        let differing_tree_chains = self
            .applied
            .adopt_trees(&self.roots, &self.tree_chains, live);
        Ok(ComparedTables {
            applied: self.applied,
            differing: self.differing,
            differing_tree_chains,
            lacks_node_ports_jumps: self.lacks_node_ports_jumps,
        })
    }
}
