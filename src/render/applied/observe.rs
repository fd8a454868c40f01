//! Compares the rules in the kernel with recorded or rendered ones, and makes the record what was
//! found: the next partial payload then restores missing rules and deletes surplus ones.
//!
//! - [`adopt`]: whole tables with rendered rules, at the start, to take over the rules of an
//!   earlier process or of kube-proxy. With a [`DeclineReason`] there is no record, and a full
//!   restore writes everything.
//! - [`verify_tables`]: whole tables with the record.
//! - [`AppliedState::observe_chains`], [`AppliedState::verify_dispatch_chain`]: single chains with
//!   the record, so that a change of one chain by another program needs no reading of all.
//! - [`unlike_rendered`]: the record with rendered rules, without the kernel.
//!
//! Differs from upstream: kube-proxy writes everything at every start, which takes minutes in a
//! large cluster and sets all counters to zero.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::guard::check_shared_chains;
use super::live::{LiveChains, LiveRule, LiveRules, LiveTreeChain, lines_of};
use super::state::{AppliedService, AppliedState, RecordedChain, leftover_service};
use crate::model::{ServiceName, Services};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options};
use crate::render::service::{self, DispatchKey, DispatchRule, ServiceRules, ServiceTotals};
use crate::render::tree::{TreeExtent, TreeUpdate};
use crate::rules::{RulesDigest, Table};
use crate::ruleset::{DispatchChain, DispatchDestination, DispatchForm, ServiceChain, tree_of};

/// Difference between a dispatch chain in the kernel and the applied state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchDrift {
    /// Services that are dirty because of the difference, the leftover Service for surplus rules.
    /// None, if the chain is written whole.
    pub services: BTreeSet<ServiceName>,
    /// Number of applied rules that are missing, with all jumps to `KUBE-NODEPORTS` if they are not
    /// the last rules. Of a root or a tree chain only these jumps are counted.
    pub missing: usize,
    /// Number of rules of a flat chain that were not applied, or that it has more than once.
    pub surplus: usize,
    /// The next payload writes the chain whole.
    pub needs_rewrite: bool,
    /// Tree chain that no rule of the proxy references; the next payload deletes it.
    pub is_unreferenced: bool,
}

impl DispatchDrift {
    /// Reports whether the chain holds the applied rules and no others.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Repair of a dispatch chain that differs from the applied state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchRepair {
    /// Single rules are inserted and deleted, which costs little in a large cluster. It fails if a
    /// second proxy on the node repairs the same chain at the same moment: both insert a missing
    /// rule, so that the kernel has it twice, then both delete one of the two, and none is left.
    Rules,
    /// The chain is written whole: the result is the same if a second proxy does it as well.
    Chain,
}

impl AppliedState {
    /// Reports whether this is a dispatch chain or a tree chain, by its name alone.
    pub fn is_dispatch_or_tree(table: Table, chain: &str) -> bool {
        DispatchChain::find(table, chain).is_some() || tree_of(table, chain).is_some()
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

    /// Compares these Service chains in the kernel with the record, and returns those that differ.
    /// `listing` is what `-S CHAIN` printed of each; `None` if they could not be listed, and then
    /// all of them differ. Each is recorded as damaged, or not anymore, and written as soon as its
    /// Service is rendered.
    pub fn observe_chains(
        &mut self,
        chains: &BTreeSet<Box<str>>,
        listing: Option<&str>,
    ) -> Vec<(ServiceName, ServiceChain)> {
        let chains = chains.iter().filter_map(|chain| ServiceChain::parse(chain));
        let chains: BTreeSet<ServiceChain> = chains.collect();
        let live = listing.map(|listing| LiveRules::of_listing(Table::Nat, listing));
        let live = live.unwrap_or_default().chains;
        let mut differing = Vec::new();
        for (name, service) in &mut self.services {
            let recorded = service.chains.iter_mut();
            for recorded in recorded.filter(|recorded| chains.contains(&recorded.chain)) {
                let found = live.get(&recorded.chain).copied();
                let found = found.unwrap_or(RulesDigest::UNKNOWN);
                recorded.is_damaged = !found.is_same(recorded.digest);
                if recorded.is_damaged {
                    differing.push((name.clone(), recorded.chain));
                }
            }
        }
        differing
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
            recorded.is_damaged = is_damaged || !recorded.digest.is_known();
        }
    }

    /// Marks a dispatch chain or a tree chain, for example a missing one: the next partial payload
    /// writes it whole. Returns whether the proxy has a chain of this name.
    pub fn mark_for_rewrite(&mut self, table: Table, chain: &str) -> bool {
        let root = DispatchChain::find(table, chain);
        let Some(dispatch) = root.or_else(|| tree_of(table, chain)) else {
            return false;
        };
        match self.trees.get_mut(&dispatch) {
            Some(tree) => tree.mark_for_rewrite(chain),
            None if root.is_some() => {
                self.chains_to_rewrite.insert(dispatch);
                true
            }
            None => false,
        }
    }

    /// Compares a root or a tree chain with its listing, as `-S CHAIN` prints it. One that differs
    /// is marked for a rewrite, or recorded to be deleted if nothing references it.
    fn verify_tree_chain(
        &mut self,
        dispatch: DispatchChain,
        chain: &str,
        listing: &str,
    ) -> DispatchDrift {
        let mut lines: String = listing
            .lines()
            .filter(|line| line.starts_with("-A "))
            .flat_map(|line| [line, "\n"])
            .collect();
        let mut drift = DispatchDrift::default();
        let Some(desired) = self.desired_in_tree(dispatch, chain) else {
            let unused = (dispatch.table(), chain.into());
            self.unused_tree_chains.insert(unused);
            drift.is_unreferenced = true;
            return drift;
        };
        if chain == DispatchChain::NatServices.name() && dispatch == DispatchChain::NatServices {
            let mut rules = LiveRules::read_dispatch_rules(dispatch, &lines);
            if remove_node_ports_jumps(&mut rules, &self.node_ports_jumps) {
                lines = lines_of(chain, &rules);
            } else {
                drift.missing += self.node_ports_jumps.len();
            }
        }
        let table = dispatch.table();
        let live = RulesDigest::of_lines(&lines);
        if drift.missing > 0 || !live.is_same(RulesDigest::of_lines(&desired)) {
            drift.needs_rewrite = true;
            self.mark_for_rewrite(table, chain);
        } else if let Some(tree) = self.trees.get_mut(&dispatch) {
            tree.note_repaired(chain, &desired);
        }
        drift
    }

    /// Compares a dispatch chain or a tree chain with its listing, as `-S CHAIN` prints it, and
    /// corrects the applied state, so that the next partial payload repairs what differs:
    ///
    /// - A flat chain whose known rules are in order, under [`DispatchRepair::Rules`]: missing
    ///   rules are removed from the applied state, and surplus ones are added to it under the
    ///   leftover Service. The next payload inserts the former and deletes the latter.
    /// - A flat chain whose rules are in the wrong order, or that differs under
    ///   [`DispatchRepair::Chain`], and a chain of a tree: it is marked for a rewrite.
    /// - A tree chain that nothing references: it is recorded to be deleted.
    ///
    /// If the jumps to `KUBE-NODEPORTS` are not the last rules of a flat `KUBE-SERVICES` that is
    /// not written whole, they are also removed from the applied state. A chain that does not
    /// differ is not marked for a rewrite anymore.
    pub fn verify_dispatch_chain(
        &mut self,
        (table, chain): (Table, &str),
        listing: &str,
        repair: DispatchRepair,
    ) -> DispatchDrift {
        if let Some(dispatch) = tree_of(table, chain) {
            return self.verify_tree_chain(dispatch, chain, listing);
        }
        let Some(dispatch) = DispatchChain::find(table, chain) else {
            return DispatchDrift::default();
        };
        if self.trees.contains_key(&dispatch) {
            return self.verify_tree_chain(dispatch, chain, listing);
        }
        let mut rules = LiveRules::read_dispatch_rules(dispatch, listing);
        let mut drift = DispatchDrift::default();
        let lacks_jumps = dispatch == DispatchChain::NatServices
            && !remove_node_ports_jumps(&mut rules, &self.node_ports_jumps);
        if lacks_jumps {
            drift.missing += self.node_ports_jumps.len();
        }
        let mut unmatched = UnmatchedRules::new(rules);
        let mut incomplete: BTreeMap<ServiceName, AppliedService> = BTreeMap::new();
        for (name, service) in &self.services {
            let MatchedRules { kept, is_in_order } =
                MatchedRules::of(service, dispatch, &mut unmatched);
            let missing = service.dispatch.len() - kept.len();
            drift.missing += missing;
            drift.needs_rewrite |= !is_in_order;
            if missing > 0 {
                let kept = AppliedService::new(service.chains.to_vec(), kept, service.totals);
                incomplete.insert(name.clone(), kept);
            }
        }
        let surplus: Vec<_> = unmatched.into_unmatched().collect();
        drift.surplus = surplus.len();
        drift.needs_rewrite |= repair == DispatchRepair::Chain && !drift.is_empty();
        if drift.needs_rewrite {
            self.chains_to_rewrite.insert(dispatch);
            return drift;
        }
        if drift.is_empty() {
            // A second proxy has repaired it, or an earlier comparison has recorded the difference.
            self.chains_to_rewrite.remove(&dispatch);
        }
        if lacks_jumps {
            // Jumps in other positions are deleted like other surplus rules.
            self.node_ports_jumps.clear();
        }
        for (name, service) in incomplete {
            self.insert(&name, service);
            drift.services.insert(name);
        }
        if !surplus.is_empty() {
            let key = DispatchKey {
                chain: dispatch,
                port_index: None,
            };
            let rules = surplus.into_iter().map(|rule| DispatchRule {
                key,
                destination: DispatchDestination::SeveralOrUnknown,
                text: rule.text,
            });
            drift.services.insert(self.add_leftovers(rules.collect()));
        }
        drift
    }

    /// Makes trees of the dispatch chains in `roots`, with the tree chains that the kernel has.
    /// The next partial payload writes the chains whose rules in the kernel are not the desired
    /// ones, and deletes the tree chains that are not desired, except those that a third-party rule
    /// references. Returns the chains to write and those to delete.
    fn adopt_trees(
        &mut self,
        roots: &BTreeMap<DispatchChain, LiveTreeChain>,
        tree_chains: &BTreeMap<(Table, Box<str>), LiveTreeChain>,
        live: &LiveChains,
    ) -> Vec<(Table, Box<str>)> {
        let mut differing = Vec::new();
        let mut used = BTreeSet::new();
        for (dispatch, root) in roots {
            let table = dispatch.table();
            self.make_tree(*dispatch);
            let Some(mut update) = self.begin_adoption(*dispatch, tree_chains) else {
                continue;
            };
            // Records every chain with its desired rules. Those of which the kernel holds other
            // rules have to be marked for a rewrite afterwards.
            while let Some(chain) = self.next_tree_chain(*dispatch, &mut update) {
                let key = (table, chain.name);
                let in_kernel = if *key.1 == *dispatch.name() {
                    Some(root)
                } else {
                    tree_chains.get(&key)
                };
                let desired = RulesDigest::of_lines(&chain.rules);
                if !in_kernel.is_some_and(|chain| chain.digest().is_same(desired)) {
                    differing.push(key.clone());
                }
                used.insert(key);
            }
            if let Some(tree) = self.trees.get_mut(dispatch) {
                update.finish(tree);
            }
        }
        for (table, name) in &differing {
            self.mark_for_rewrite(*table, name);
        }
        let unused = tree_chains.keys();
        let unused = unused.filter(|key| !used.contains(key) && live.can_delete(&key.1));
        self.unused_tree_chains = unused.cloned().collect();
        differing.extend(self.unused_tree_chains.iter().cloned());
        differing
    }

    /// Records which chains of a tree the kernel has, without their rules, and begins an update.
    fn begin_adoption(
        &mut self,
        dispatch: DispatchChain,
        tree_chains: &BTreeMap<(Table, Box<str>), LiveTreeChain>,
    ) -> Option<TreeUpdate> {
        let tree = self.trees.get_mut(&dispatch)?;
        for ((table, name), chain) in tree_chains {
            if tree_of(*table, name) == Some(dispatch) {
                tree.note_live(name, chain.is_inner);
            }
        }
        Some(tree.begin_update(TreeExtent::ChangedChains))
    }

    /// Records rules under the leftover Service, so that they are deleted. Returns its name.
    fn add_leftovers(&mut self, mut rules: Vec<DispatchRule>) -> ServiceName {
        let name = leftover_service();
        let before = self.services.get(&name).cloned().unwrap_or_default();
        rules.splice(0..0, before.dispatch);
        let service = AppliedService::new(before.chains.into(), rules, ServiceTotals::default());
        self.insert(&name, service);
        name
    }
}

/// Dispatch rules that one Service has in the kernel.
struct MatchedRules {
    /// Rules found in the compared chain, and all rules of other chains.
    kept: Vec<DispatchRule>,
    /// The rules of each group are in their order.
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
        let mut matched = Vec::new();
        for rule in &service.dispatch {
            if rule.key.chain != dispatch {
                kept.push(rule.clone());
            } else if let Some(at) = unmatched.take(&rule.text) {
                matched.push((at, rule));
                kept.push(rule.clone());
            }
        }
        Self {
            is_in_order: are_in_order(matched.iter().copied()),
            kept,
        }
    }
}

/// Removes the jumps to `KUBE-NODEPORTS` from the end of their chain; reports whether all of them
/// were found there, in this order. A jump in another position counts as a surplus rule.
pub(super) fn remove_node_ports_jumps(rules: &mut Vec<LiveRule>, jumps: &[Box<[u8]>]) -> bool {
    let Some(others) = rules.len().checked_sub(jumps.len()) else {
        return false;
    };
    let last = rules.get(others..).unwrap_or_default();
    for (rule, jump) in last.iter().zip(jumps) {
        if !rule.digest.is_same(RulesDigest::of_rule(spec(jump))) {
            return false;
        }
    }
    rules.truncate(others);
    true
}

/// Rules of a dispatch chain in the kernel that have not been matched to a Service yet.
pub(super) struct UnmatchedRules {
    /// All rules of the chain; `None` where one has been matched.
    rules: Vec<Option<LiveRule>>,
    /// Positions of rules by digest. Of equal rules the last one is matched first, because `-D`
    /// deletes the first one.
    positions: HashMap<RulesDigest, Vec<usize>>,
}

impl UnmatchedRules {
    /// Takes all rules of a chain, in their order.
    pub(super) fn new(rules: Vec<LiveRule>) -> Self {
        let mut positions: HashMap<RulesDigest, Vec<usize>> = HashMap::new();
        for (at, rule) in rules.iter().enumerate() {
            if rule.digest.is_known() {
                positions.entry(rule.digest).or_default().push(at);
            }
        }
        let rules = rules.into_iter().map(Some).collect();
        Self { rules, positions }
    }

    /// Removes an equal rule; returns its position, if the chain has one.
    pub(super) fn take(&mut self, rule: &[u8]) -> Option<usize> {
        let at = self
            .positions
            .get_mut(&RulesDigest::of_rule(spec(rule)))?
            .pop()?;
        self.rules.get_mut(at)?.take()?;
        Some(at)
    }

    /// Returns the rules that were not matched to a Service.
    pub(super) fn into_unmatched(self) -> impl Iterator<Item = LiveRule> {
        self.rules.into_iter().flatten()
    }
}

/// Returns a dispatch rule without blanks and newline around it.
pub(super) fn spec(rule: &[u8]) -> &str {
    str::from_utf8(rule).unwrap_or_default().trim()
}

/// Reports whether the rules of one Service, given as they were rendered and with their positions
/// in the kernel, are in their order there within each group. Equal rules are interchangeable: one
/// that is rendered several times, as for an external IP that is listed twice, has the last
/// position first.
pub(super) fn are_in_order<'r>(
    matched: impl Iterator<Item = (usize, &'r DispatchRule)> + Clone,
) -> bool {
    let mut pairs = matched.clone().zip(matched.clone().skip(1));
    let is_ascending =
        pairs.all(|((before, rule), (after, next))| rule.key != next.key || before < after);
    is_ascending || {
        let mut rendered: Vec<_> = matched.collect();
        rendered.sort_by_key(|(_, rule)| rule.key);
        let mut live = rendered.clone();
        live.sort_by_key(|(position, rule)| (rule.key, *position));
        let mut pairs = live.iter().zip(&rendered);
        pairs.all(|((_, live), (_, rendered))| live.text == rendered.text)
    }
}

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
    let leftover = leftover_service();
    let is_gone = |name: &&ServiceName| {
        services.get(name).is_none() && !due.contains(*name) && **name != leftover
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
    check_shared_chains(&live_rules, options).map_err(DeclineReason::DispatchOrFixedChains)?;
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
    /// rules, those with other rules as damaged, and those rules of flat chains that are found. All
    /// of its rules in trees are recorded: whether the kernel has them is compared later, chain by
    /// chain.
    fn observe(&mut self, name: &ServiceName, expected: AppliedService) {
        let (mut chains, mut is_same) = (Vec::with_capacity(expected.chains.len()), true);
        for chain in &expected.chains {
            self.expected_count += 1;
            match self.chains.remove(&chain.chain) {
                Some(found) => {
                    let is_damaged = !found.is_same(chain.digest);
                    self.same_count += usize::from(!is_damaged);
                    is_same &= !is_damaged;
                    let mut chain = *chain;
                    chain.is_damaged = is_damaged;
                    chains.push(chain);
                }
                None => is_same = false,
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
