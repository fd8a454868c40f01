//! Compares the rules of whole tables with the rendered ones: at the start, to adopt the rules of
//! an earlier process or of a kube-proxy ([`adopt`]), and later, to verify the proxy's own rules
//! ([`verify_tables`]).
//!
//! Nothing is written here. Rules that the kernel has already, in any spelling, are recorded in a
//! new [`AppliedState`] as if they had been restored; a partial payload then writes the rest. For a
//! [`DeclineReason`] the comparison is given up, and a full restore writes everything.
//!
//! Differs from upstream: kube-proxy writes everything at every start, which takes minutes in a
//! large cluster and sets all counters to zero.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::guard::matches_exactly;
use super::live::{LiveChains, LiveRules, has_same_rules};
use super::parsed::{LiveTreeChain, ParsedDigest};
use super::single_chains::{UnmatchedRules, remove_node_ports_jumps, text_of};
use super::state::{AppliedService, AppliedState, RecordedChain, leftover_service};
use crate::model::{ServiceName, Services};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options, RenderContext};
use crate::render::service::{
    self, DispatchKey, DispatchRule, RenderedChain, ServiceRules, ServiceTotals,
};
use crate::render::tree::WriteExtent;
use crate::rules::Table;
use crate::ruleset::{
    DispatchChain, DispatchDestination, FILTER_CHAINS, KUBE_FIREWALL, NAT_CHAINS, ServiceChain,
    tree_of,
};

/// Divisor of the number of rendered Service chains: at least half of them must have the rendered
/// rules in the kernel. With fewer, a full restore costs less, because it is streamed, while a
/// partial payload is whole in memory.
const LEAST_SHARE_DIVISOR: usize = 2;

/// Result of a comparison of the rules in the kernel with the rendered ones.
#[derive(Debug, Default)]
pub(crate) struct Adopted {
    /// Rules in the kernel, as if they had been restored.
    pub applied: AppliedState,
    /// Services that are dirty because of the comparison: those whose rules differ, and the
    /// leftover Service, if it has rules or chains.
    pub differing: Vec<ServiceName>,
    /// Chains of trees whose rules differ.
    pub differing_tree_chains: Vec<(Table, Box<str>)>,
    /// `KUBE-SERVICES` does not end with the jumps to `KUBE-NODEPORTS`; the next payload appends
    /// them.
    pub lacks_node_ports_jumps: bool,
}

/// Reason for which a comparison is given up, and a full restore is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclineReason {
    /// A table could not be read.
    Unreadable,
    /// A dispatch chain, fixed chain, canary or entry jump is missing from this table, or a fixed
    /// chain holds other rules. A node without rules is such a case.
    DispatchOrFixedChains(Table),
    /// There is a chain with the prefix of a Service chain and a name that current versions do not
    /// make. The applied state cannot record such a name, so no partial payload could delete the
    /// chain; a full restore deletes it.
    UnknownChain,
    /// Third-party rules lead to a stale chain.
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
            Self::UnknownChain => "unknown chains have the prefix of a Service chain",
            Self::Referenced => "third-party rules lead to stale chains",
            Self::NodePorts => "KUBE-SERVICES does not end with the jumps to KUBE-NODEPORTS",
            Self::Different => "most rules differ",
        }
    }
}

/// Strictness of a comparison, which depends on its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// The rules are of another process. Misplaced jumps to `KUBE-NODEPORTS`, and third-party rules
    /// that lead to stale chains, are reasons to give up.
    Adoption,
    /// The rules were restored by this process, and other programs may have changed some of them:
    /// misplaced jumps are appended again, and stale chains that third-party rules lead to are
    /// kept.
    Verification,
}

/// Compares the rules in the kernel with those of `services`, which were applied before.
///
/// Services in `changing` do not count towards [`DeclineReason::Different`]. Dispatch chains have
/// to exist. Rules of fixed chains and entry jumps are not compared:
/// [`GuardedChainState`](super::GuardedChainState) does that.
pub(crate) fn verify_tables(
    rules: LiveRules,
    live: &LiveChains,
    services: &dyn Services,
    context: RenderContext<'_>,
    changing: &BTreeSet<ServiceName>,
) -> Result<Adopted, DeclineReason> {
    for dispatch in DispatchChain::ALL {
        if !rules.has(dispatch.table(), dispatch.name()) {
            return Err(DeclineReason::DispatchOrFixedChains(dispatch.table()));
        }
    }
    let strictness = Strictness::Verification;
    let mut comparison = LiveComparison::new(rules, context.options, strictness)?;
    let (mut rendered, mut other) = (ServiceRules::default(), ServiceRules::default());
    for (name, state) in services.all() {
        service::render(&mut rendered, name, state, context, Comments::Everywhere);
        let mut same = comparison.same_chains(&rendered);
        if same.len() < rendered.chains().count() {
            // The live rules may lack comments on endpoints: the cluster is above the endpoint
            // threshold, or was when they were written.
            service::render(&mut other, name, state, context, Comments::NotOnEndpoints);
            let same_otherwise = comparison.same_chains(&other);
            if same_otherwise.len() > same.len() {
                std::mem::swap(&mut rendered, &mut other);
                same = same_otherwise;
            }
        }
        if !changing.contains(name) {
            comparison.count(&rendered, &same);
        }
        comparison.record(name, &rendered, same);
    }
    comparison.finish(live, strictness)
}

/// Compares the rules in the kernel with those of `services`, of which none is known to be
/// applied.
pub(crate) fn adopt(
    rules: LiveRules,
    live: &LiveChains,
    services: &dyn Services,
    context: RenderContext<'_>,
) -> Result<Adopted, DeclineReason> {
    check_shared_chains(&rules, context.options)?;
    if rules.has_unknown_chain {
        return Err(DeclineReason::UnknownChain);
    }
    let strictness = Strictness::Adoption;
    let mut comparison = LiveComparison::new(rules, context.options, strictness)?;
    let endpoints = services
        .all()
        .map(|(_, state)| service::count_endpoints(state))
        .sum();
    let comments = Comments::for_cluster(endpoints, context.options);
    let mut rendered = ServiceRules::default();
    for (name, state) in services.all() {
        service::render(&mut rendered, name, state, context, comments);
        let same = comparison.same_chains(&rendered);
        comparison.count(&rendered, &same);
        comparison.record(name, &rendered, same);
    }
    comparison.finish(live, strictness)
}

/// Checks the filter and nat tables: that the dispatch chains, fixed chains and canaries exist, and
/// that the rules of fixed chains and the entry jumps are those that a full restore writes.
fn check_shared_chains(rules: &LiveRules, options: &Options) -> Result<(), DeclineReason> {
    let are_complete = |table, chains: &[&str]| {
        let listing = rules.listing(table);
        chains.iter().all(|chain| rules.has(table, chain))
            && matches_exactly(table, listing, options)
    };
    if !rules.has(Table::Filter, KUBE_FIREWALL) || !are_complete(Table::Filter, &FILTER_CHAINS) {
        return Err(DeclineReason::DispatchOrFixedChains(Table::Filter));
    }
    if !are_complete(Table::Nat, &NAT_CHAINS) {
        return Err(DeclineReason::DispatchOrFixedChains(Table::Nat));
    }
    Ok(())
}

/// Comparison of live rules with rendered ones, Service by Service. Rules and chains that are not
/// matched to a Service in the end are recorded under the leftover Service.
struct LiveComparison {
    /// Service chains in the kernel that have not been matched to a Service yet.
    chains: HashMap<ServiceChain, Option<ParsedDigest>>,
    /// Rules of the flat dispatch chains that have not been matched to a Service yet.
    dispatch: BTreeMap<DispatchChain, UnmatchedRules>,
    /// Rules of the dispatch chains that are trees.
    roots: BTreeMap<DispatchChain, LiveTreeChain>,
    /// Tree chains in the kernel.
    tree_chains: BTreeMap<(Table, Box<str>), LiveTreeChain>,
    applied: AppliedState,
    differing: Vec<ServiceName>,
    /// Number of rendered chains.
    rendered: usize,
    /// Number of rendered chains that the kernel has with the same rules.
    same: usize,
    lacks_node_ports_jumps: bool,
}

impl LiveComparison {
    fn new(
        mut rules: LiveRules,
        options: &Options,
        strictness: Strictness,
    ) -> Result<Self, DeclineReason> {
        let mut jumps = fixed_chains::node_ports_jumps(options);
        let nat_services = rules.rules_mut(DispatchChain::NatServices);
        let lacks_node_ports_jumps = !remove_node_ports_jumps(nat_services, &jumps);
        if lacks_node_ports_jumps {
            if strictness == Strictness::Adoption {
                return Err(DeclineReason::NodePorts);
            }
            // If none is recorded, the next payload appends them.
            jumps.clear();
        }
        let tree_chains = std::mem::take(&mut rules.tree_chains);
        let (mut dispatch, mut roots) = (BTreeMap::new(), BTreeMap::new());
        for chain in DispatchChain::ALL {
            let rules = std::mem::take(rules.rules_mut(chain));
            let root = LiveTreeChain::of_lines(chain.table(), &text_of(chain.name(), &rules));
            let below = tree_chains.iter();
            let below = below.filter(|((table, name), _)| tree_of(*table, name) == Some(chain));
            let len = root.len + below.map(|(_, below)| below.len).sum::<u64>();
            if options.service_dispatch.is_tree(chain, len, root.is_inner) {
                roots.insert(chain, root);
            } else {
                dispatch.insert(chain, UnmatchedRules::new(rules));
            }
        }
        let fixed_rules = fixed_chains::rule_counts(options);
        Ok(Self {
            chains: rules.chains,
            dispatch,
            roots,
            tree_chains,
            applied: AppliedState::without_services(fixed_rules, jumps),
            differing: Vec::new(),
            rendered: 0,
            same: 0,
            lacks_node_ports_jumps,
        })
    }

    /// Returns the chains of a Service that the kernel has with the rendered rules.
    fn same_chains(&self, rendered: &ServiceRules) -> Vec<RecordedChain> {
        let is_same = |entry: &&RenderedChain| {
            has_same_rules(&self.chains, entry.chain, rendered.chain_text(entry))
        };
        let same = rendered.chains().filter(is_same);
        same.map(RecordedChain::of).collect()
    }

    /// Counts chains for the check that most of them are the same.
    fn count(&mut self, rendered: &ServiceRules, same: &[RecordedChain]) {
        self.rendered += rendered.chains().count();
        self.same += same.len();
    }

    /// Records the rules of one Service that the kernel has: the chains in `same`, and the dispatch
    /// rules that are found.
    fn record(&mut self, name: &ServiceName, rendered: &ServiceRules, same: Vec<RecordedChain>) {
        let mut is_same = same.len() == rendered.chains().count();
        for entry in rendered.chains() {
            self.chains.remove(&entry.chain);
        }
        let mut rules: Vec<(usize, DispatchRule)> = Vec::new();
        for (place, rule) in rendered.to_dispatch_rules().enumerate() {
            let Some(unmatched) = self.dispatch.get_mut(&rule.key.chain) else {
                // Chains of a tree are compared when the rules of all Services are known.
                rules.push((place, rule));
                continue;
            };
            if let Some(at) = unmatched.take(&rule.text) {
                is_same &= rules
                    .last()
                    .is_none_or(|(before, last)| last.key != rule.key || *before < at);
                rules.push((at, rule));
            } else {
                is_same = false;
            }
        }
        rules.sort_by_key(|(at, rule)| (rule.key, *at));
        let rules = rules.into_iter().map(|(_, rule)| rule);
        let service = AppliedService::new(same, rules.collect(), rendered.totals());
        self.applied.insert(name, service);
        if !is_same {
            self.differing.push(name.clone());
        }
    }

    /// Records chains and rules that were not matched to a Service under the leftover Service, so
    /// that the next partial payload deletes them.
    fn finish(
        mut self,
        live: &LiveChains,
        strictness: Strictness,
    ) -> Result<Adopted, DeclineReason> {
        if self.same * LEAST_SHARE_DIVISOR < self.rendered {
            return Err(DeclineReason::Different);
        }
        let mut stale: Vec<_> = self.chains.keys().copied().collect();
        match strictness {
            Strictness::Adoption if stale.iter().any(|chain| !live.can_delete(&chain.name())) => {
                return Err(DeclineReason::Referenced);
            }
            Strictness::Adoption => {}
            // A chain that third-party rules lead to cannot be deleted.
            Strictness::Verification => stale.retain(|chain| live.can_delete(&chain.name())),
        }
        let chains = stale.into_iter().map(RecordedChain::unknown).collect();
        let mut rules = Vec::new();
        for (chain, unmatched) in std::mem::take(&mut self.dispatch) {
            rules.extend(unmatched.rest().map(|rule| DispatchRule {
                key: DispatchKey { chain, port: None },
                destination: DispatchDestination::Several,
                text: rule.text,
            }));
        }
        let leftover = leftover_service();
        let service = AppliedService::new(chains, rules, ServiceTotals::default());
        self.applied.insert(&leftover, service);
        if self.applied.has(&leftover) {
            self.differing.push(leftover);
        }
        let differing_tree_chains = self.compare_trees(live);
        Ok(Adopted {
            applied: self.applied,
            differing: self.differing,
            differing_tree_chains,
            lacks_node_ports_jumps: self.lacks_node_ports_jumps,
        })
    }

    /// Compares the chains of trees, which depend on the rules of all Services. Those that differ
    /// are written by the next partial payload, and those that no jump leads to are deleted.
    fn compare_trees(&mut self, live: &LiveChains) -> Vec<(Table, Box<str>)> {
        let mut differing = Vec::new();
        let mut used = BTreeSet::new();
        for (dispatch, root) in &self.roots {
            let table = dispatch.table();
            let chains = self.tree_chains.iter();
            let below = chains.filter(|((of, name), _)| tree_of(*of, name) == Some(*dispatch));
            let below = below.map(|((_, name), chain)| (&**name, chain.is_inner));
            self.applied.adopt_tree(*dispatch, below);
            let changes = self
                .applied
                .tree_changes(*dispatch, WriteExtent::Changed, false)
                .unwrap_or_default();
            let root_text = changes.root.unwrap_or_default();
            let written = changes.written.iter();
            let written = written.map(|(name, text)| (&**name, &**text));
            for (name, text) in written.chain([(dispatch.name(), &*root_text)]) {
                let key = (table, name.into());
                let is_root = name == dispatch.name();
                let found = if is_root {
                    Some(root)
                } else {
                    self.tree_chains.get(&key)
                };
                let wanted = LiveTreeChain::of_lines(table, text);
                if !found.is_some_and(|found| found.is_same(&wanted)) {
                    self.applied.rewrite_dispatch(table, name);
                    differing.push(key.clone());
                }
                used.insert(key);
            }
        }
        let unused = self.tree_chains.keys();
        let unused = unused.filter(|key| !used.contains(key) && live.can_delete(&key.1));
        self.applied.unused_tree_chains = unused.cloned().collect();
        differing.extend(self.applied.unused_tree_chains.iter().cloned());
        differing
    }
}
