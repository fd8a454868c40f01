//! Tree of one dispatch chain: its rules, the chains that the last restores left in the kernel, and
//! its update.
//!
//! After a change the chains whose prefix includes a changed destination are rendered again, and
//! those whose depth changed, one at a time. They are recorded when they were written. Of
//! one whose rules differ the new rules are inserted, if they are all that differs; otherwise it is
//! written whole, as most have few rules. Each chain comes after those that it jumps to, and the
//! root comes last: the kernel accepts a jump only if its target exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::rules::{ChainPart, RuleReference, RulesByDestination, TreeChain, TreeChainKind};
use crate::model::ServiceName;
use crate::render::recorded_chain::RecordedChain;
use crate::render::service::{DispatchRule, write_chain_declarations};
use crate::rules::RulesDigest;
use crate::ruleset::{DispatchChain, Prefix};

/// Tree of one dispatch chain.
#[derive(Debug, Clone)]
pub(crate) struct DispatchTree {
    pub(super) dispatch: DispatchChain,
    pub(super) rules: RulesByDestination,
    /// Chains in the kernel by name.
    pub(super) chains: BTreeMap<Box<str>, RecordedTreeChain>,
    pub(super) root: RecordedChain,
    /// Number of rules in the root and all tree chains.
    rule_count: u64,
    /// Last rules of the root, lines with `-A CHAIN`: the jumps to `KUBE-NODEPORTS`.
    last_rules: String,
    /// Names of the tree chains that the root jumps to.
    pub(super) root_targets: Box<[Box<str>]>,
    /// Changes since the tree was written. The root is always rendered, so that changes which only
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
    pub(super) recorded: RecordedChain,
    /// Names of the tree chains that it jumps to.
    pub(super) targets: Box<[Box<str>]>,
}

/// Destinations whose chains may differ from the rules, so that the next update renders them.
#[derive(Debug, Clone)]
pub(super) enum Pending {
    /// Those whose rules changed. For each damaged chain, the lowest one that its prefix includes
    /// stands for the chain; it need not have rules.
    Destinations(BTreeSet<Prefix>),
    /// All, because chains in the kernel may hold unknown rules.
    All,
}

impl DispatchTree {
    /// Returns a tree of which the kernel has no chain, with only the last rules of its root: lines
    /// with `-A CHAIN`.
    pub(crate) fn new(dispatch: DispatchChain, last_rules: String) -> Self {
        Self {
            dispatch,
            rules: RulesByDestination::default(),
            chains: BTreeMap::new(),
            root: RecordedChain::unknown(),
            rule_count: 0,
            last_rules,
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

    /// Replaces the last rules of the root.
    pub(crate) fn set_last_rules(&mut self, rules: &str) {
        rules.clone_into(&mut self.last_rules);
    }

    /// Returns the number of tree chains in the kernel.
    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }

    /// Reports whether the kernel has a tree chain of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.chains.contains_key(name)
    }

    /// Returns the names of the tree chains in the kernel.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.chains.keys().map(|name| &**name)
    }

    /// Returns the number of rules in the root and all tree chains.
    pub(crate) const fn rule_count(&self) -> u64 {
        self.rule_count
    }

    fn count(&mut self, new: RecordedChain, before: Option<RecordedChain>) {
        self.rule_count += u64::from(new.rule_count);
        self.rule_count -= before.map_or(0, |before| u64::from(before.rule_count));
    }

    /// Adopts chains in the kernel, given by name and whether they are inner chains, as its
    /// chains as far as their kinds fit. Each is recorded with its desired rules.
    pub(crate) fn adopt<'c>(
        &mut self,
        chains: impl Iterator<Item = (&'c str, bool)>,
        text_of: TextOfRule<'_, '_>,
    ) {
        for (name, is_inner) in chains {
            let chain = RecordedTreeChain {
                shape: None,
                is_inner,
                recorded: RecordedChain::unknown(),
                targets: Box::default(),
            };
            self.chains.insert(name.into(), chain);
        }
        self.pending = Pending::All;
        let mut update = self.begin_update(TreeExtent::ChangedChains);
        while update.next(self, text_of).is_some() {}
        let desired = update.finish(self);
        self.written(desired);
    }

    /// Records that the kernel has what an update has rendered.
    pub(crate) fn written(&mut self, update: RenderedTree) {
        let before = std::mem::replace(&mut self.root, update.root);
        self.count(update.root, Some(before));
        self.root_targets = update.root_targets;
        for (name, chain) in update.chains {
            let recorded = chain.recorded;
            let before = self.chains.insert(name, chain);
            self.count(recorded, before.map(|before| before.recorded));
        }
        for name in update.deleted {
            if let Some(chain) = self.chains.remove(&name) {
                self.rule_count -= u64::from(chain.recorded.rule_count);
            }
        }
        self.pending = Pending::Destinations(BTreeSet::new());
    }

    /// Records that the kernel may have what an update has rendered, or only a part of it.
    pub(crate) fn maybe_written(&mut self, update: &RenderedTree) {
        let mut names: BTreeSet<&str> = update.chain_names().collect();
        names.extend(update.deleted.iter().map(|name| &**name));
        names.insert(self.dispatch.name());
        self.observe(|name| names.contains(name).then_some(RulesDigest::UNKNOWN));
    }

    /// Compares the chains and the root with the rules that were read of the chain of a name. The
    /// next update writes those that differ whole, unless it deletes them. Returns their names.
    pub(crate) fn observe(&mut self, read: impl Fn(&str) -> Option<RulesDigest>) -> Vec<Box<str>> {
        let mut differing: Vec<Box<str>> = Vec::new();
        let root = self.dispatch.name();
        if self.root.observe(read(root)) {
            differing.push(root.into());
        }
        for (name, chain) in &mut self.chains {
            if chain.recorded.observe(read(name)) {
                differing.push(name.clone());
                match (chain.shape, &mut self.pending) {
                    (Some(shape), Pending::Destinations(pending)) => {
                        pending.insert(shape.prefix.first());
                    }
                    (_, pending) => *pending = Pending::All,
                }
            }
        }
        differing
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

    /// Begins an update.
    pub(crate) fn begin_update(&self, extent: TreeExtent) -> TreeUpdate {
        let parts = self.rules.of_root(&|prefix| self.kind_of(prefix));
        let root = OpenChain::new(self.dispatch.name(), None, parts);
        TreeUpdate {
            extent,
            pending: match extent {
                TreeExtent::AllChains => Pending::All,
                TreeExtent::ChangedRules | TreeExtent::ChangedChains => self.pending.clone(),
            },
            open: vec![root],
            rendered: RenderedTree::default(),
            referenced: BTreeSet::new(),
            maybe_unreferenced: Vec::new(),
        }
    }

    /// Renders all changes at once.
    pub(crate) fn render(&self, extent: TreeExtent, text_of: TextOfRule<'_, '_>) -> TreeChanges {
        let mut update = self.begin_update(extent);
        let (mut written, mut root) = (Vec::new(), None);
        while let Some(chain) = update.next(self, text_of) {
            if *chain.name == *self.dispatch.name() {
                root = Some(chain.rules);
            } else {
                written.push(chain);
            }
        }
        TreeChanges {
            written,
            root,
            rendered: update.finish(self),
        }
    }
}

/// Returns those rules of a Service that are in this dispatch chain, with references to them.
fn rules_in<'r>(
    dispatch: DispatchChain,
    service: &'r ServiceName,
    rules: &'r [DispatchRule],
) -> impl Iterator<Item = (&'r DispatchRule, RuleReference)> {
    let rules = (0..=u32::MAX).zip(rules);
    let rules_in_chain = rules.filter(move |(_, rule)| rule.chain == dispatch);
    rules_in_chain.map(|(index, rule)| (rule, (service.clone(), index)))
}

/// Chain to write.
#[derive(Debug)]
pub(crate) struct WrittenChain {
    /// Name of the tree chain; of the root, that of the dispatch chain.
    pub(crate) name: Box<str>,
    pub(crate) extent: ChainExtent,
    /// Rules with `-A NAME`, inserted ones with `-I NAME NUMBER`.
    pub(crate) rules: String,
}

/// Rules of one tree chain that a restore writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainExtent {
    /// All, after the chain was emptied.
    Whole,
    /// Those that the kernel does not have yet; it has all others.
    Insertions,
}

/// Chains of a tree to write and to delete.
#[derive(Debug, Default)]
pub(crate) struct TreeChanges {
    /// Written tree chains, each after those that it jumps to.
    pub(crate) written: Vec<WrittenChain>,
    /// Rules of the root; `None` if they are in the kernel already.
    pub(crate) root: Option<String>,
    /// Record of the tree after they were written.
    pub(crate) rendered: RenderedTree,
}

/// Result of an update: what the record of the tree becomes when it was written.
#[derive(Debug, Clone)]
pub(crate) struct RenderedTree {
    root: RecordedChain,
    root_targets: Box<[Box<str>]>,
    chains: Vec<(Box<str>, RecordedTreeChain)>,
    /// Chains that no jump references anymore, sorted.
    pub(crate) deleted: Vec<Box<str>>,
}

impl RenderedTree {
    /// Returns the names of the rendered tree chains.
    pub(crate) fn chain_names(&self) -> impl Iterator<Item = &str> {
        self.chains.iter().map(|(name, _)| &**name)
    }
}

impl Default for RenderedTree {
    fn default() -> Self {
        Self {
            root: RecordedChain::unknown(),
            root_targets: Box::default(),
            chains: Vec::new(),
            deleted: Vec::new(),
        }
    }
}

impl WrittenChain {
    pub(super) const fn whole(name: Box<str>, rules: String) -> Self {
        let extent = ChainExtent::Whole;
        Self {
            name,
            extent,
            rules,
        }
    }

    pub(super) const fn insertions(name: Box<str>, rules: String) -> Self {
        let extent = ChainExtent::Insertions;
        Self {
            name,
            extent,
            rules,
        }
    }

    /// Appends the rules of a tree chain, after its declaration if it is written whole.
    pub(crate) fn write(&self, buf: &mut Vec<u8>) {
        if self.extent == ChainExtent::Whole {
            write_chain_declarations(buf, &[&self.name]);
        }
        buf.extend_from_slice(self.rules.as_bytes());
    }
}

impl TreeChanges {
    /// Appends each written chain.
    pub(crate) fn write_chains(&self, buf: &mut Vec<u8>) {
        for chain in &self.written {
            chain.write(buf);
        }
    }

    /// Returns the number of written rules.
    pub(crate) fn rule_count(&self) -> u64 {
        let texts = self.written.iter().map(|chain| &chain.rules);
        let lines = texts.chain(&self.root).map(|text| text.lines().count());
        lines.sum::<usize>() as u64
    }

    /// Returns the number of written and deleted chains.
    pub(crate) fn chain_count(&self) -> u64 {
        let root = usize::from(self.root.is_some());
        (self.written.len() + self.rendered.deleted.len() + root) as u64
    }
}

/// Extent of a restore: the chains of a tree that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeExtent {
    /// Rules that the kernel does not have, if that is the only difference of their chain;
    /// otherwise as [`Self::ChangedChains`].
    ChangedRules,
    /// Chains whose rules differ from those in the kernel, each whole.
    ChangedChains,
    /// Every chain.
    AllChains,
}

/// Lookup of the text of a referenced rule: a blank, the rule without `-A CHAIN`, and a newline.
pub(crate) type TextOfRule<'f, 's> = &'f dyn Fn(&ServiceName, u32) -> &'s [u8];

/// Update of a tree that has begun.
///
/// Between its steps the rules of the tree must not change.
#[derive(Debug)]
pub(crate) struct TreeUpdate {
    extent: TreeExtent,
    pending: Pending,
    /// Path from the root to the chain that is rendered next.
    open: Vec<OpenChain>,
    rendered: RenderedTree,
    /// Targets of the rendered jumps.
    referenced: BTreeSet<Box<str>>,
    /// Targets that the rendered chains had before; some of them have no jump anymore.
    maybe_unreferenced: Vec<Box<str>>,
}

/// Chain that is rendered after the chains that it jumps to.
#[derive(Debug)]
struct OpenChain {
    /// Name, which takes a hash to find for IPv6.
    name: Box<str>,
    /// `None`: the root.
    chain: Option<TreeChain>,
    parts: Vec<ChainPart>,
    /// Index of the part whose target comes next.
    next: usize,
    /// Names of the targets of the parts before it.
    targets: Vec<Box<str>>,
}

impl TreeUpdate {
    /// Renders chains until one has to be written, and returns it; `None` after the last one.
    pub(crate) fn next(
        &mut self,
        tree: &DispatchTree,
        text_of: TextOfRule<'_, '_>,
    ) -> Option<WrittenChain> {
        while let Some(mut open) = self.open.pop() {
            if let Some(target) = self.next_target(tree, &mut open) {
                self.open.push(open);
                self.open.push(target);
                continue;
            }
            let rules = open.text(tree, text_of);
            let written = match open.chain {
                None => self.record_root(tree, open, rules),
                Some(chain) => self.record_chain(tree, chain, open, rules),
            };
            if written.is_some() {
                return written;
            }
        }
        None
    }

    /// Returns the next target of a chain that has to be rendered.
    fn next_target(&mut self, tree: &DispatchTree, open: &mut OpenChain) -> Option<OpenChain> {
        while let Some(part) = open.parts.get(open.next) {
            open.next += 1;
            let ChainPart::Jump(chain) = *part else {
                continue;
            };
            let name = chain.prefix.chain_name(tree.dispatch);
            self.referenced.insert(name.clone());
            let target = (!self.is_current(tree.chains.get(&name), chain)).then(|| {
                let recorded = |prefix: Prefix| tree.kind_of(prefix);
                let parts = tree.rules.content_of(chain, &recorded);
                OpenChain::new(&name, Some(chain), parts)
            });
            open.targets.push(name);
            if target.is_some() {
                return target;
            }
        }
        None
    }

    /// Reports whether a recorded chain, and all that are reached through it, are the desired
    /// ones.
    fn is_current(&self, recorded: Option<&RecordedTreeChain>, chain: TreeChain) -> bool {
        let Pending::Destinations(pending) = &self.pending else {
            return false;
        };
        let destinations = chain.prefix.first()..=chain.prefix.last();
        recorded.is_some_and(|recorded| recorded.shape == Some(chain))
            && pending.range(destinations).next().is_none()
    }

    fn record_root(
        &mut self,
        tree: &DispatchTree,
        open: OpenChain,
        rules: String,
    ) -> Option<WrittenChain> {
        let targets_before = tree.root_targets.iter().cloned();
        self.maybe_unreferenced.extend(targets_before);
        self.rendered.root = RecordedChain::of_lines(&rules);
        self.rendered.root_targets = open.targets.into();
        self.is_written(Some(&tree.root), &self.rendered.root)
            .then(|| WrittenChain::whole(open.name, rules))
    }

    fn record_chain(
        &mut self,
        tree: &DispatchTree,
        chain: TreeChain,
        mut open: OpenChain,
        rules: String,
    ) -> Option<WrittenChain> {
        let recorded = RecordedChain::of_lines(&rules);
        let new = RecordedTreeChain {
            shape: Some(chain),
            is_inner: chain.kind == TreeChainKind::Inner,
            recorded,
            targets: std::mem::take(&mut open.targets).into(),
        };
        self.rendered.chains.push((open.name.clone(), new));
        let before = tree.chains.get(&open.name);
        let targets_before = before.into_iter().flat_map(|before| &before.targets);
        self.maybe_unreferenced.extend(targets_before.cloned());
        let before = before.map(|before| &before.recorded);
        if !self.is_written(before, &recorded) {
            return None;
        }
        let inserted = self.insertions(&open, &rules, &tree.rules, before);
        Some(match inserted {
            Some(inserted) => WrittenChain::insertions(open.name, inserted),
            None => WrittenChain::whole(open.name, rules),
        })
    }

    fn is_written(&self, before: Option<&RecordedChain>, new: &RecordedChain) -> bool {
        let is_same = before.is_some_and(|before| before.holds(new.digest()));
        self.extent == TreeExtent::AllChains || !is_same
    }

    /// Returns the rules to insert into a chain, with their numbers; `None` if it has to be written
    /// whole.
    ///
    /// The rules of changed destinations are inserted if the recorded digest is that of the rules
    /// without them: then the kernel has none of them, and all others. So nothing is inserted if a
    /// changed destination had a rule before.
    fn insertions(
        &self,
        chain: &OpenChain,
        text: &str,
        rules: &RulesByDestination,
        before: Option<&RecordedChain>,
    ) -> Option<String> {
        let (TreeExtent::ChangedRules, Pending::Destinations(changed)) =
            (self.extent, &self.pending)
        else {
            return None;
        };
        let (mut inserted, mut rest) = (String::new(), String::new());
        let mut lines = text.split_inclusive('\n').zip(1..);
        for part in &chain.parts {
            let (line_count, is_changed) = match part {
                ChainPart::Rules(destination) => {
                    (rules.of(*destination).len(), changed.contains(destination))
                }
                ChainPart::Jump(_) => (1, false),
            };
            for (line, number) in lines.by_ref().take(line_count) {
                match line.strip_prefix("-A ") {
                    Some(line) if is_changed => {
                        let rule = line.strip_prefix(&*chain.name)?;
                        // Writing to a String cannot fail.
                        let _ = write!(inserted, "-I {} {number}{rule}", chain.name);
                    }
                    _ => rest.push_str(line),
                }
            }
        }
        let has_rest = before?.holds(RulesDigest::of_lines(&rest));
        has_rest.then_some(inserted)
    }

    /// Ends the update after the last chain: finds the chains that no jump references anymore, and
    /// then those that only these referenced.
    pub(crate) fn finish(mut self, tree: &DispatchTree) -> RenderedTree {
        if matches!(self.pending, Pending::All) {
            // Every chain was rendered, so that `referenced` has all chains in use.
            self.maybe_unreferenced.extend(tree.chains.keys().cloned());
        }
        let mut deleted = BTreeSet::new();
        while let Some(name) = self.maybe_unreferenced.pop() {
            if self.referenced.contains(&name) || deleted.contains(&name) {
                continue;
            }
            if let Some(chain) = tree.chains.get(&name) {
                self.maybe_unreferenced
                    .extend(chain.targets.iter().cloned());
                deleted.insert(name);
            }
        }
        self.rendered.deleted = deleted.into_iter().collect();
        self.rendered
    }
}

impl OpenChain {
    fn new(name: &str, chain: Option<TreeChain>, parts: Vec<ChainPart>) -> Self {
        Self {
            name: name.into(),
            chain,
            parts,
            next: 0,
            targets: Vec::new(),
        }
    }

    /// Returns the rules of the chain, with `-A NAME`.
    fn text(&self, tree: &DispatchTree, text_of: TextOfRule<'_, '_>) -> String {
        let (name, rules) = (&self.name, &tree.rules);
        let mut text = String::new();
        if self.chain.is_none() {
            for reference in rules.several_or_unknown() {
                append_rule(&mut text, name, reference, text_of);
            }
        }
        for part in &self.parts {
            match part {
                ChainPart::Rules(destination) => {
                    for reference in rules.of(*destination) {
                        append_rule(&mut text, name, reference, text_of);
                    }
                }
                ChainPart::Jump(chain) => {
                    let target = chain.prefix.chain_name(tree.dispatch);
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "-A {name}{} -j {target}", chain.prefix);
                }
            }
        }
        if self.chain.is_none() {
            text.push_str(&tree.last_rules);
        }
        text
    }
}

fn append_rule(
    text: &mut String,
    chain: &str,
    (service, index): &RuleReference,
    text_of: TextOfRule<'_, '_>,
) {
    let rule = String::from_utf8_lossy(text_of(service, *index));
    text.extend(["-A ", chain, &rule]);
}
