//! Tree of one dispatch chain: its rules, and the chains that the last restores left in the
//! kernel.
//!
//! After a change the chains whose prefix includes a changed destination are rendered again, and
//! those whose depth changed. Of one whose text differs the new rules are inserted, if they are all
//! that differs; otherwise it is written whole, as most have few rules.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{RuleReference, RulesByDestination, TreeChain, TreeChainKind};
use crate::model::ServiceName;
use crate::render::service::DispatchRule;
use crate::rules::RulesDigest;
use crate::ruleset::{DispatchChain, Prefix};

/// Tree of one dispatch chain.
#[derive(Debug, Clone)]
pub(crate) struct DispatchTree {
    pub(super) dispatch: DispatchChain,
    pub(super) rules: RulesByDestination,
    /// Chains in the kernel by name.
    pub(super) chains: BTreeMap<Box<str>, RecordedTreeChain>,
    /// Digest of the rules of the root, without jumps to `KUBE-NODEPORTS`.
    pub(super) root: RulesDigest,
    /// Names of the tree chains that the root jumps to.
    pub(super) root_targets: Box<[Box<str>]>,
    /// Changes since the last rendering. The root is always rendered, so that changes which only
    /// concern it are not noted.
    pub(super) pending: Pending,
}

/// Tree chain in the kernel.
#[derive(Debug, Clone)]
pub(super) struct RecordedTreeChain {
    /// Prefix, kind and depth; `None` until the update that ends an adoption, because the name does
    /// not show all of them.
    pub(super) shape: Option<TreeChain>,
    /// Was rendered as an inner chain. If adopted: holds a jump for several destinations.
    pub(super) is_inner: bool,
    pub(super) digest: RulesDigest,
    /// Names of the tree chains that it jumps to.
    pub(super) targets: Box<[Box<str>]>,
}

/// Destinations whose chains may differ from the rules, so that the next update renders them.
#[derive(Debug, Clone)]
pub(super) enum Pending {
    /// Those whose rules changed. For each chain that is marked for a rewrite, the lowest one that
    /// its prefix includes stands for the chain; it need not have rules.
    Destinations(BTreeSet<Prefix>),
    /// All, because chains in the kernel may hold unknown rules.
    All,
}

impl DispatchTree {
    /// Returns a tree without rules, of which the kernel has no chain.
    pub(crate) fn new(dispatch: DispatchChain) -> Self {
        Self {
            dispatch,
            rules: RulesByDestination::default(),
            chains: BTreeMap::new(),
            root: RulesDigest::UNKNOWN,
            root_targets: Box::default(),
            pending: Pending::All,
        }
    }

    /// Replaces the rules of a Service. Rules of other dispatch chains are ignored.
    pub(crate) fn replace(
        &mut self,
        service: &ServiceName,
        before: &[DispatchRule],
        after: &[DispatchRule],
    ) {
        if before == after {
            return;
        }
        for (rule, reference) in rules_in(self.dispatch, service, before) {
            self.rules.remove(rule, &reference);
            self.note_change(rule);
        }
        for (rule, reference) in rules_in(self.dispatch, service, after) {
            self.rules.add(rule, reference);
            self.note_change(rule);
        }
    }

    /// Returns the number of tree chains in the kernel. After an update, each has one jump to it.
    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }

    /// Returns the names of the tree chains in the kernel.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.chains.keys().map(|name| &**name)
    }

    /// Notes a chain that was found in the kernel.
    pub(crate) fn note_live(&mut self, name: &str, is_inner: bool) {
        let chain = RecordedTreeChain {
            shape: None,
            is_inner,
            digest: RulesDigest::UNKNOWN,
            targets: Box::default(),
        };
        self.chains.insert(name.into(), chain);
        self.pending = Pending::All;
    }

    /// Marks a chain, or the root, to be written whole by the next update, unless that deletes it:
    /// its rules in the kernel are unknown. Returns whether there is a chain of this name.
    pub(crate) fn mark_for_rewrite(&mut self, name: &str) -> bool {
        if name == self.dispatch.name() {
            self.root = RulesDigest::UNKNOWN;
            return true;
        }
        let Some(chain) = self.chains.get_mut(name) else {
            return false;
        };
        chain.digest = RulesDigest::UNKNOWN;
        match chain.shape {
            Some(shape) => self.note_destination(shape.prefix.first()),
            None => self.pending = Pending::All,
        }
        true
    }

    /// Notes that the kernel holds the desired rules of a chain, or of the root, which may have
    /// been marked for a rewrite.
    pub(crate) fn note_repaired(&mut self, name: &str, desired: &str) {
        let digest = RulesDigest::of_lines(desired);
        if name == self.dispatch.name() {
            self.root = digest;
        } else if let Some(chain) = self.chains.get_mut(name) {
            chain.digest = digest;
        }
    }

    /// Returns the kind of the recorded chain for a prefix.
    pub(super) fn kind_of(&self, prefix: Prefix) -> Option<TreeChainKind> {
        let chain = self.chains.get(&prefix.chain_name(self.dispatch))?;
        Some(if chain.is_inner {
            TreeChainKind::Inner
        } else {
            TreeChainKind::Leaf
        })
    }

    fn note_change(&mut self, rule: &DispatchRule) {
        if let Some(destination) = Prefix::of(rule.destination) {
            self.note_destination(destination);
        }
    }

    fn note_destination(&mut self, destination: Prefix) {
        if let Pending::Destinations(pending) = &mut self.pending {
            pending.insert(destination);
        }
    }
}

/// Returns those rules of a Service that are in this dispatch chain, with references to them. Rules
/// without the index of a port belong to no Service (see `leftover_service`): they are left out,
/// and so deleted when the chain is written.
fn rules_in<'r>(
    dispatch: DispatchChain,
    service: &'r ServiceName,
    rules: &'r [DispatchRule],
) -> impl Iterator<Item = (&'r DispatchRule, RuleReference)> {
    let rules = (0..=u32::MAX).zip(rules);
    let rules_in_chain =
        rules.filter(move |(_, rule)| rule.key.chain == dispatch && rule.key.port_index.is_some());
    rules_in_chain.map(|(index, rule)| (rule, (service.clone(), index)))
}
