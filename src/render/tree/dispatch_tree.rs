//! Tree of one dispatch chain: its rules, and the chains that the last restores left in the
//! kernel.
//!
//! After a change only the chains whose prefix includes a changed destination are rendered again,
//! and those whose text differs are written whole: a chain has few rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::rules::{ChainPart, RuleReference, RulesByDestination, TreeChain, TreeChainKind};
use crate::model::ServiceName;
use crate::render::service::{DispatchRule, TextDigest, write_line};
use crate::ruleset::{DispatchChain, Prefix};

/// Tree of one dispatch chain.
#[derive(Debug, Clone)]
pub(crate) struct DispatchTree {
    dispatch: DispatchChain,
    rules: RulesByDestination,
    /// Chains in the kernel by name.
    chains: BTreeMap<Box<str>, RecordedTreeChain>,
    /// Digest of the rules of the root, without jumps to `KUBE-NODEPORTS`.
    root: TextDigest,
    /// Names of the tree chains that the root jumps to.
    root_targets: Box<[Box<str>]>,
    /// Changes since the last rendering. The root is always rendered, so that changes which only
    /// concern it are not noted.
    pending: Pending,
}

/// Tree chain in the kernel.
#[derive(Debug, Clone)]
struct RecordedTreeChain {
    /// Prefix, kind and depth; `None` for an adopted chain, whose name does not show all of them.
    shape: Option<TreeChain>,
    /// Was rendered as an inner chain. If adopted: holds jumps to tree chains of several
    /// destinations.
    is_inner: bool,
    digest: TextDigest,
    /// Names of the tree chains that it jumps to.
    targets: Box<[Box<str>]>,
}

/// Destinations whose chains may differ from the rules, so that the next update renders them.
#[derive(Debug, Clone)]
enum Pending {
    /// Those whose rules changed.
    Destinations(BTreeSet<Prefix>),
    /// All, because chains in the kernel may hold unknown rules.
    All,
}

/// Extent of a restore: the chains of a tree that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeExtent {
    /// Chains whose rules differ from those in the kernel.
    ChangedChains,
    /// Every chain.
    AllChains,
}

/// Chains of a tree to write and to delete.
#[derive(Debug, Default)]
pub(crate) struct TreeChanges {
    /// Written chains, each after those that it jumps to: its name, and its rules with `-A NAME`.
    pub(crate) written: Vec<(Box<str>, String)>,
    /// Rules of the root, without jumps to `KUBE-NODEPORTS`; `None` if they are in the kernel
    /// already.
    pub(crate) root: Option<String>,
    /// Chains that no jump references anymore.
    pub(crate) deleted: Vec<Box<str>>,
}

impl TreeChanges {
    /// Appends the declaration and the rules of each written chain.
    pub(crate) fn write_chains(&self, buf: &mut Vec<u8>) {
        for (name, rules) in &self.written {
            write_line(buf, &[":", name, " - [0:0]"]);
            buf.extend_from_slice(rules.as_bytes());
        }
    }

    /// Returns the number of written rules.
    pub(crate) fn rule_count(&self) -> u64 {
        let texts = self.written.iter().map(|(_, text)| text);
        let lines = texts.chain(&self.root).map(|text| text.lines().count());
        lines.sum::<usize>() as u64
    }

    /// Returns the number of written and deleted chains.
    pub(crate) fn chain_count(&self) -> u64 {
        let root = usize::from(self.root.is_some());
        (self.written.len() + self.deleted.len() + root) as u64
    }
}

impl DispatchTree {
    /// Returns a tree without rules, of which the kernel has no chain.
    pub(crate) fn new(dispatch: DispatchChain) -> Self {
        Self {
            dispatch,
            rules: RulesByDestination::default(),
            chains: BTreeMap::new(),
            root: TextDigest::UNKNOWN,
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

    /// Returns the number of tree chains in the kernel, each with one jump to it.
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
            digest: TextDigest::UNKNOWN,
            targets: Box::default(),
        };
        self.chains.insert(name.into(), chain);
        self.pending = Pending::All;
    }

    /// Marks a chain, or the root, to be written with the next changes, because its rules in the
    /// kernel are unknown. Returns whether the tree has a chain of this name.
    pub(crate) fn mark_for_rewrite(&mut self, name: &str) -> bool {
        if name == self.dispatch.name() {
            self.root = TextDigest::UNKNOWN;
            return true;
        }
        let Some(chain) = self.chains.get_mut(name) else {
            return false;
        };
        chain.digest = TextDigest::UNKNOWN;
        self.pending = Pending::All;
        true
    }

    /// Returns the desired rules of a chain of the tree, with `-A NAME` and without jumps to
    /// `KUBE-NODEPORTS`; `None` if the tree has no chain of this name.
    pub(crate) fn desired(&self, name: &str, text_of: TextOfRule<'_, '_>) -> Option<String> {
        let recorded = |prefix: Prefix| kind_of(&self.chains, self.dispatch, prefix);
        if name == self.dispatch.name() {
            let parts = self.rules.of_root(&recorded);
            return Some(root_text(&self.rules, self.dispatch, &parts, text_of));
        }
        let shape = self.chains.get(name)?.shape?;
        let parts = self.rules.content_of(shape, &recorded);
        Some(parts_text(name, self.dispatch, &parts, text_of))
    }

    /// Renders the chains that may differ from those in the kernel, and records them as if they
    /// had been restored, so that the next call does not return them again. If the restore fails,
    /// the caller puts back a copy of the tree, or forgets it.
    pub(crate) fn render_and_record(
        &mut self,
        extent: TreeExtent,
        text_of: TextOfRule<'_, '_>,
    ) -> TreeChanges {
        let pending = std::mem::replace(&mut self.pending, Pending::Destinations(BTreeSet::new()));
        let pending = match extent {
            TreeExtent::AllChains => Pending::All,
            TreeExtent::ChangedChains => pending,
        };
        let mut update = Update {
            dispatch: self.dispatch,
            rules: &self.rules,
            chains: &mut self.chains,
            extent,
            pending,
            text_of,
            changes: TreeChanges::default(),
            referenced: BTreeSet::new(),
            maybe_unreferenced: Vec::new(),
        };
        update.update_root(&mut self.root, &mut self.root_targets);
        update.delete_unreferenced();
        update.changes
    }

    fn note_change(&mut self, rule: &DispatchRule) {
        if let (Pending::Destinations(pending), Some(destination)) =
            (&mut self.pending, Prefix::of(rule.destination))
        {
            pending.insert(destination);
        }
    }
}

/// Lookup of the text of a referenced rule: a blank, the rule without `-A CHAIN`, and a newline.
pub(crate) type TextOfRule<'f, 's> = &'f dyn Fn(&ServiceName, u32) -> &'s [u8];

/// Update of the recorded chains of a tree to its rules.
struct Update<'t, 'f, 's> {
    dispatch: DispatchChain,
    rules: &'t RulesByDestination,
    chains: &'t mut BTreeMap<Box<str>, RecordedTreeChain>,
    extent: TreeExtent,
    pending: Pending,
    text_of: TextOfRule<'f, 's>,
    changes: TreeChanges,
    /// Targets of the rendered jumps.
    referenced: BTreeSet<Box<str>>,
    /// Targets that the rendered chains had before; some of them have no jump anymore.
    maybe_unreferenced: Vec<Box<str>>,
}

impl Update<'_, '_, '_> {
    fn update_root(&mut self, recorded: &mut TextDigest, targets: &mut Box<[Box<str>]>) {
        let parts = self.rules.of_root(&|prefix| self.recorded_kind(prefix));
        let targets_before = std::mem::replace(targets, self.update_targets(&parts));
        self.maybe_unreferenced.extend(targets_before);
        let text = root_text(self.rules, self.dispatch, &parts, self.text_of);
        let digest = TextDigest::of(text.as_bytes());
        if digest != *recorded || self.extent == TreeExtent::AllChains {
            self.changes.root = Some(text);
        }
        *recorded = digest;
    }

    /// Updates the chains that a chain jumps to; returns their names.
    fn update_targets(&mut self, parts: &[ChainPart<'_>]) -> Box<[Box<str>]> {
        let mut names = Vec::new();
        for part in parts {
            let ChainPart::Jump(chain) = part else {
                continue;
            };
            let name = chain.prefix.chain_name(self.dispatch);
            self.referenced.insert(name.clone());
            if !self.is_current(&name, *chain) {
                self.update_chain(&name, *chain);
            }
            names.push(name);
        }
        names.into()
    }

    /// Reports whether a recorded chain, and all that are reached through it, are the desired
    /// ones.
    fn is_current(&self, name: &str, chain: TreeChain) -> bool {
        let Pending::Destinations(pending) = &self.pending else {
            return false;
        };
        let recorded = self.chains.get(name);
        let destinations = chain.prefix.first()..=chain.prefix.last();
        recorded.is_some_and(|recorded| recorded.shape == Some(chain))
            && pending.range(destinations).next().is_none()
    }

    fn update_chain(&mut self, name: &str, chain: TreeChain) {
        let parts = self
            .rules
            .content_of(chain, &|prefix| self.recorded_kind(prefix));
        let targets = self.update_targets(&parts);
        let text = parts_text(name, self.dispatch, &parts, self.text_of);
        let digest = TextDigest::of(text.as_bytes());
        let recorded = RecordedTreeChain {
            shape: Some(chain),
            is_inner: chain.kind == TreeChainKind::Inner,
            digest,
            targets,
        };
        let before = self.chains.insert(name.into(), recorded);
        let is_same = before
            .as_ref()
            .is_some_and(|before| before.digest == digest);
        if !is_same || self.extent == TreeExtent::AllChains {
            self.changes.written.push((name.into(), text));
        }
        let targets_before = before.into_iter().flat_map(|before| before.targets);
        self.maybe_unreferenced.extend(targets_before);
    }

    /// Deletes the chains that no jump references anymore, and then those that only these
    /// referenced.
    fn delete_unreferenced(&mut self) {
        if matches!(self.pending, Pending::All) {
            // Every chain was rendered, so that `referenced` has all chains in use.
            self.maybe_unreferenced.extend(self.chains.keys().cloned());
        }
        while let Some(name) = self.maybe_unreferenced.pop() {
            if self.referenced.contains(&name) {
                continue;
            }
            if let Some(chain) = self.chains.remove(&name) {
                self.maybe_unreferenced.extend(chain.targets);
                self.changes.deleted.push(name);
            }
        }
        self.changes.deleted.sort_unstable();
    }

    fn recorded_kind(&self, prefix: Prefix) -> Option<TreeChainKind> {
        kind_of(self.chains, self.dispatch, prefix)
    }
}

/// Returns the kind of the recorded chain for a prefix.
fn kind_of(
    chains: &BTreeMap<Box<str>, RecordedTreeChain>,
    dispatch: DispatchChain,
    prefix: Prefix,
) -> Option<TreeChainKind> {
    let chain = chains.get(&prefix.chain_name(dispatch))?;
    Some(if chain.is_inner {
        TreeChainKind::Inner
    } else {
        TreeChainKind::Leaf
    })
}

/// Returns the rules of the root.
fn root_text(
    rules: &RulesByDestination,
    dispatch: DispatchChain,
    parts: &[ChainPart<'_>],
    text_of: TextOfRule<'_, '_>,
) -> String {
    let several_or_unknown: Vec<RuleReference> = rules.several_or_unknown().cloned().collect();
    let name = dispatch.name();
    let mut root = parts_text(
        name,
        dispatch,
        &[ChainPart::Rules(&several_or_unknown)],
        text_of,
    );
    root += &parts_text(name, dispatch, parts, text_of);
    root
}

fn parts_text(
    name: &str,
    dispatch: DispatchChain,
    parts: &[ChainPart<'_>],
    text_of: TextOfRule<'_, '_>,
) -> String {
    let mut rules = String::new();
    for part in parts {
        match part {
            ChainPart::Rules(references) => {
                for (service, index) in *references {
                    let rule = String::from_utf8_lossy(text_of(service, *index));
                    rules.extend(["-A ", name, &rule]);
                }
            }
            ChainPart::Jump(chain) => {
                let target = chain.prefix.chain_name(dispatch);
                // Writing to a String cannot fail.
                let _ = writeln!(rules, "-A {name}{} -j {target}", chain.prefix);
            }
        }
    }
    rules
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
