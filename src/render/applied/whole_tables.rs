//! Compares the rules of whole tables with the rendered ones: at the start, to adopt the rules of
//! an earlier process or of a kube-proxy ([`adopt`]), and later, to verify the proxy's own rules
//! ([`verify_tables`]).
//!
//! Nothing is written here. Rules that the kernel has already, in any spelling, are recorded in a
//! new [`AppliedState`] as if they had been restored; a partial payload then writes the rest. If
//! there is any doubt, the rules are declined and a full restore writes everything.
//!
//! Differs from upstream: kube-proxy writes everything at every start, which takes minutes in a
//! large cluster and sets all counters to zero.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::guard::matches_exactly;
use super::live::{LiveChains, LiveRules, ParsedDigest, has_same_rules};
use super::single_chains::{UnmatchedRules, remove_node_ports_jumps};
use super::state::{AppliedService, AppliedState, RecordedChain, leftover_owner};
use crate::model::{ServiceName, Services};
use crate::render::fixed_chains;
use crate::render::options::{Comments, Options, RenderContext};
use crate::render::service::{self, DispatchKey, RenderedChain, ServiceRules, ServiceTotals};
use crate::rules::Table;
use crate::ruleset::{DispatchChain, FILTER_CHAINS, KUBE_FIREWALL, NAT_CHAINS, ServiceChain};

/// Rules are adopted only if at least one in this many rendered chains, that is half of them, has
/// the rendered rules in the kernel. With fewer, a full restore costs less: it is streamed, a
/// partial payload is in memory whole.
const LEAST_SHARE_DIVISOR: usize = 2;

/// Result of a comparison of the rules in the kernel with the rendered ones.
#[derive(Debug, Default)]
pub(crate) struct Adopted {
    /// Rules in the kernel, as if they had been restored.
    pub applied: AppliedState,
    /// Services that the next partial restore has to name: those that lack rules, and the leftover
    /// owner, if there are stale rules or chains.
    pub differing: Vec<ServiceName>,
    /// The jump to `KUBE-NODEPORTS` is not at the end of `KUBE-SERVICES`; the next payload appends
    /// it.
    pub lacks_node_ports_jump: bool,
}

/// Reason for which the rules in the kernel are not adopted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclineReason {
    /// A table could not be read.
    Unreadable,
    /// A shared chain or an entry jump is missing from this table, or a fixed chain holds other
    /// rules. A node without rules is such a case.
    SharedChains(Table),
    /// There is a chain with the prefix of a Service chain that no known version writes.
    UnknownChain,
    /// Third-party rules lead to a stale chain.
    Referenced,
    /// The jump to `KUBE-NODEPORTS` is not the last rule of its chain, or differs.
    NodePorts,
    /// Most chains differ, so that most rules would be written anyway.
    Different,
}

impl DeclineReason {
    /// Returns the reason as logs have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "a table cannot be read",
            Self::SharedChains(_) => {
                "dispatch chains, fixed chains or the jumps to them are missing or differ"
            }
            Self::UnknownChain => "unknown chains have the prefix of a Service chain",
            Self::Referenced => "third-party rules lead to stale chains",
            Self::NodePorts => "the jump to KUBE-NODEPORTS is not the last rule, or differs",
            Self::Different => "most rules differ",
        }
    }
}

/// Tolerance of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// The rules are of another process: if there is any doubt, they have to be written again.
    Adoption,
    /// The rules were restored by this process, and other programs may have changed some of them.
    Verification,
}

/// Compares the rules in the kernel with those of `services`, which were applied before. Services
/// that lack rules are among the differing ones.
///
/// Services in `changing` are expected to differ. Rules of fixed chains and entry jumps are not
/// compared: [`GuardedChainState`](super::GuardedChainState) does that.
pub(crate) fn verify_tables(
    rules: LiveRules,
    live: &LiveChains,
    services: &dyn Services,
    context: RenderContext<'_>,
    changing: &BTreeSet<ServiceName>,
) -> Result<Adopted, DeclineReason> {
    for dispatch in DispatchChain::ALL {
        if !rules.has(dispatch.table(), dispatch.name()) {
            return Err(DeclineReason::SharedChains(dispatch.table()));
        }
    }
    let strictness = Strictness::Verification;
    let mut comparison = LiveComparison::new(rules, context.options, strictness)?;
    let (mut rendered, mut other) = (ServiceRules::default(), ServiceRules::default());
    for (name, state) in services.all() {
        service::render(&mut rendered, name, state, context, Comments::Everywhere);
        let mut same = comparison.same_chains(&rendered);
        if same.len() < rendered.chains().count() {
            // The live rules may have the comments of the other side of the threshold: the cluster
            // is large, or was when they were written.
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

/// Checks that the dispatch and fixed chains exist, and that the rules of fixed chains and the
/// entry jumps are those that a restore writes.
fn check_shared_chains(rules: &LiveRules, options: &Options) -> Result<(), DeclineReason> {
    let are_complete = |table, chains: &[&str]| {
        let listing = rules.listing(table);
        chains.iter().all(|chain| rules.has(table, chain))
            && matches_exactly(table, listing, options)
    };
    if !rules.has(Table::Filter, KUBE_FIREWALL) || !are_complete(Table::Filter, &FILTER_CHAINS) {
        return Err(DeclineReason::SharedChains(Table::Filter));
    }
    if !are_complete(Table::Nat, &NAT_CHAINS) {
        return Err(DeclineReason::SharedChains(Table::Nat));
    }
    if rules.has_unknown_chain {
        return Err(DeclineReason::UnknownChain);
    }
    Ok(())
}

/// Comparison of live rules with rendered ones, Service by Service. Rules and chains that no
/// Service has had in the end are recorded under the leftover owner.
struct LiveComparison {
    /// Service chains in the kernel that no Service has had so far.
    chains: HashMap<ServiceChain, Option<ParsedDigest>>,
    dispatch: BTreeMap<DispatchChain, UnmatchedRules>,
    applied: AppliedState,
    differing: Vec<ServiceName>,
    /// Number of rendered chains.
    rendered: usize,
    /// Number of rendered chains that the kernel has with the same rules.
    same: usize,
    lacks_node_ports_jump: bool,
}

impl LiveComparison {
    fn new(
        mut rules: LiveRules,
        options: &Options,
        strictness: Strictness,
    ) -> Result<Self, DeclineReason> {
        let mut jumps = fixed_chains::node_ports_jumps(options);
        let nat_services = rules.rules_mut(DispatchChain::NatServices);
        let lacks_node_ports_jump = !remove_node_ports_jumps(nat_services, &jumps);
        if lacks_node_ports_jump {
            if strictness == Strictness::Adoption {
                return Err(DeclineReason::NodePorts);
            }
            // If none is recorded, the next payload appends them.
            jumps.clear();
        }
        let dispatch = DispatchChain::ALL.map(|chain| {
            let rules = std::mem::take(rules.rules_mut(chain));
            (chain, UnmatchedRules::new(rules))
        });
        let fixed_rules = fixed_chains::rule_counts(options);
        Ok(Self {
            chains: rules.chains,
            dispatch: dispatch.into(),
            applied: AppliedState::without_services(fixed_rules, jumps),
            differing: Vec::new(),
            rendered: 0,
            same: 0,
            lacks_node_ports_jump,
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

    /// Counts chains for the decision whether the rules are adopted at all.
    fn count(&mut self, rendered: &ServiceRules, same: &[RecordedChain]) {
        self.rendered += rendered.chains().count();
        self.same += same.len();
    }

    /// Records the rules that the kernel has of one Service, these chains among them.
    fn record(&mut self, name: &ServiceName, rendered: &ServiceRules, same: Vec<RecordedChain>) {
        let mut is_same = same.len() == rendered.chains().count();
        for entry in rendered.chains() {
            self.chains.remove(&entry.chain);
        }
        let mut rules: Vec<(DispatchKey, usize, &[u8])> = Vec::new();
        for (key, rule) in rendered.dispatch_rules() {
            let unmatched = self.dispatch.get_mut(&key.chain);
            if let Some(at) = unmatched.and_then(|unmatched| unmatched.take(rule)) {
                is_same &= rules
                    .last()
                    .is_none_or(|(last, before, _)| *last != key || *before < at);
                rules.push((key, at, rule));
            } else {
                is_same = false;
            }
        }
        rules.sort_by_key(|(key, at, _)| (*key, *at));
        let rules = rules.into_iter().map(|(key, _, rule)| (key, rule.into()));
        let service = AppliedService::new(same, rules.collect(), rendered.totals());
        self.applied.insert(name, service);
        if !is_same {
            self.differing.push(name.clone());
        }
    }

    /// Records stale chains and rules under the leftover owner, so that the next payload deletes
    /// them.
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
        for (chain, unmatched) in self.dispatch {
            let key = DispatchKey { chain, port: None };
            rules.extend(unmatched.rest().map(|rule| (key, rule.text)));
        }
        let owner = leftover_owner();
        let service = AppliedService::new(chains, rules, ServiceTotals::default());
        self.applied.insert(&owner, service);
        if self.applied.has(&owner) {
            self.differing.push(owner);
        }
        Ok(Adopted {
            applied: self.applied,
            differing: self.differing,
            lacks_node_ports_jump: self.lacks_node_ports_jump,
        })
    }
}
