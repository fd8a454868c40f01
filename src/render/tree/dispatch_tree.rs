//! Tree of one dispatch chain: its rules, the chains that the last restores left in the kernel, and
//! its update. `shape` decides which chains it has.
//!
//! After a change the chains whose prefix includes a changed destination are rendered again, and
//! those whose depth changed, one at a time. They are recorded when they were written. Of
//! one whose rules differ the new rules are inserted, if they are all that differs; otherwise it is
//! written whole, as most have few rules. Each chain comes after those that it jumps to, and the
//! root comes last: the kernel accepts a jump only if its target exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::iter;

use crate::model::ServiceName;
use crate::render::options::PartialRestore;
use crate::render::service::{
    AppliedService, DispatchRule, RecordedChain, write_chain_declarations,
};
use crate::rules::RulesDigest;
use crate::ruleset::{DispatchChain, Prefix};

/// Tree of one dispatch chain.
#[derive(Debug, Clone)]
pub(crate) struct DispatchTree {
    dispatch: DispatchChain,
    pub(super) rules: BTreeMap<Prefix, RulesOfDestination>,
    /// Chains in the kernel by name.
    chains: BTreeMap<Box<str>, RecordedTreeChain>,
    root: RecordedChain,
    /// Number of rules in the root and all tree chains.
    rule_count: u64,
    /// Last rules of the root, lines with `-A CHAIN`: the jumps to `KUBE-NODEPORTS`.
    last_rules: String,
    /// Names of the tree chains that the root jumps to.
    root_targets: Box<[Box<str>]>,
    /// Destinations whose chains may differ from the rules, so that the next update renders them:
    /// those whose rules changed, and for each damaged chain the lowest one that its prefix
    /// includes, which need not have rules. `None`: all, because chains in the kernel may hold
    /// unknown rules. The root is always rendered, so that changes which only concern it are not
    /// noted.
    pending: Option<BTreeSet<Prefix>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RulesOfDestination {
    /// Service of each rule, and its index among the dispatch rules of that Service; sorted.
    pub(super) references: Vec<(ServiceName, u32)>,
    /// Length of the rules without `-A CHAIN`.
    pub(super) bytes: usize,
}

/// Desired tree chain.
///
/// An inner chain holds one rule for each longer prefix: the jump to the chain with the rules of
/// that prefix, or the rule of a Service itself. A leaf holds the rules of Services for a prefix,
/// or jumps to the chains of single destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeChain {
    pub(super) prefix: Prefix,
    pub(super) is_inner: bool,
    /// Number of jumps from the root to this chain, at least 1.
    pub(super) depth: u8,
}

/// Part of the content of a tree chain or of the root.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChainPart {
    Rules(Prefix),
    /// Jump to a tree chain, for the packets whose destination has its prefix.
    Jump(TreeChain),
}

/// Tree chain in the kernel.
#[derive(Debug, Clone)]
struct RecordedTreeChain {
    /// `None` until the update that ends an adoption, because the name does not show all of it.
    shape: Option<TreeChain>,
    /// Was rendered as an inner chain. If adopted: holds a jump for several destinations.
    is_inner: bool,
    recorded: RecordedChain,
    /// Names of the tree chains that it jumps to.
    targets: Box<[Box<str>]>,
}

impl DispatchTree {
    /// Returns a tree of which the kernel has no chain, with only the last rules of its root: lines
    /// with `-A CHAIN`.
    pub(crate) fn new(dispatch: DispatchChain, last_rules: String) -> Self {
        Self {
            dispatch,
            rules: BTreeMap::new(),
            chains: BTreeMap::new(),
            root: RecordedChain::unknown(),
            rule_count: 0,
            last_rules,
            root_targets: Box::default(),
            pending: None,
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
            self.remove(rule, &reference);
        }
        for (rule, reference) in rules_in(self.dispatch, service, after) {
            self.add(rule, reference);
        }
    }

    fn add(&mut self, rule: &DispatchRule, reference: (ServiceName, u32)) {
        let destination = Prefix::of(rule.destination);
        self.note_change(destination);
        let rules = self.rules.entry(destination).or_default();
        if let Err(at) = rules.references.binary_search(&reference) {
            // Most destinations have one rule: room for four would be most of the memory. With
            // more, room for twice as many: very many Services can share a destination.
            if rules.references.len() < 4 {
                rules.references.reserve_exact(1);
            }
            rules.references.insert(at, reference);
            rules.bytes += rule.text.len();
        }
    }

    fn remove(&mut self, rule: &DispatchRule, reference: &(ServiceName, u32)) {
        let destination = Prefix::of(rule.destination);
        self.note_change(destination);
        if let Some(rules) = self.rules.get_mut(&destination)
            && let Ok(at) = rules.references.binary_search(reference)
        {
            rules.references.remove(at);
            rules.bytes -= rule.text.len();
            if rules.references.is_empty() {
                self.rules.remove(&destination);
            }
        }
    }

    fn note_change(&mut self, destination: Prefix) {
        if let Some(pending) = &mut self.pending {
            pending.insert(destination);
        }
    }

    /// Returns the references to the rules of one destination.
    fn rules_of(&self, destination: Prefix) -> &[(ServiceName, u32)] {
        let rules = self.rules.get(&destination);
        rules.map_or(&[], |rules| &rules.references)
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
        services: &BTreeMap<ServiceName, AppliedService>,
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
        self.pending = None;
        let (_, update) = self.render(PartialRestore::ChangedChains, services);
        self.written(update);
    }

    /// Records that the kernel has what an update has rendered.
    pub(crate) fn written(&mut self, update: TreeUpdate) {
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
        self.pending = Some(BTreeSet::new());
    }

    /// Records that the kernel may have what an update has rendered, or only a part of it.
    pub(crate) fn maybe_written(&mut self, update: &TreeUpdate) {
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
                    (Some(shape), Some(pending)) => {
                        pending.insert(shape.prefix.first());
                    }
                    (_, pending) => *pending = None,
                }
            }
        }
        differing
    }

    pub(super) fn has_chain_for(&self, prefix: Prefix) -> bool {
        self.has(&prefix.chain_name(self.dispatch))
    }

    /// Reports whether the kernel has an inner chain for a prefix.
    pub(super) fn has_inner_chain_for(&self, prefix: Prefix) -> bool {
        let chain = self.chains.get(&prefix.chain_name(self.dispatch));
        chain.is_some_and(|chain| chain.is_inner)
    }

    /// Begins an update, of which each step renders a chain. [`PartialRestore::Kep3453`] writes
    /// every chain.
    pub(crate) fn begin_update(&self, extent: PartialRestore) -> TreeUpdate {
        let root = OpenChain::new(self.dispatch.name(), None, self.content_of_root());
        TreeUpdate {
            extent,
            pending: match extent {
                PartialRestore::Kep3453 => None,
                PartialRestore::ChangedChains | PartialRestore::WholeTreeChains => {
                    self.pending.clone()
                }
            },
            open: vec![root],
            referenced: BTreeSet::new(),
            maybe_unreferenced: Vec::new(),
            root: RecordedChain::unknown(),
            root_targets: Box::default(),
            chains: Vec::new(),
            deleted: BTreeSet::new(),
        }
    }

    /// Renders all changes at once; returns the chains to write, each after those that it jumps to.
    pub(crate) fn render(
        &self,
        extent: PartialRestore,
        services: &BTreeMap<ServiceName, AppliedService>,
    ) -> (Vec<WrittenChain>, TreeUpdate) {
        let mut update = self.begin_update(extent);
        let written = iter::from_fn(|| update.next(self, services)).collect();
        (written, update)
    }
}

/// Returns those rules of a Service that are in this dispatch chain, with references to them.
fn rules_in<'r>(
    dispatch: DispatchChain,
    service: &'r ServiceName,
    rules: &'r [DispatchRule],
) -> impl Iterator<Item = (&'r DispatchRule, (ServiceName, u32))> {
    let rules = (0..=u32::MAX).zip(rules);
    let rules_in_chain = rules.filter(move |(_, rule)| rule.chain == dispatch);
    rules_in_chain.map(|(index, rule)| (rule, (service.clone(), index)))
}

/// Chain to write.
#[derive(Debug)]
pub(crate) struct WrittenChain {
    /// Name of the tree chain; of the root, that of the dispatch chain.
    pub(crate) name: Box<str>,
    /// The chain is emptied, and gets all of its rules. Otherwise the rules are those that the
    /// kernel does not have yet; it has all others.
    pub(crate) is_whole: bool,
    /// Rules with `-A NAME`, inserted ones with `-I NAME NUMBER`.
    pub(crate) rules: String,
}

impl WrittenChain {
    /// Appends the rules, after the declaration of a chain that is written whole.
    pub(crate) fn write(&self, buf: &mut Vec<u8>) {
        if self.is_whole {
            write_chain_declarations(buf, &[&self.name]);
        }
        buf.extend_from_slice(self.rules.as_bytes());
    }
}

/// Update of a tree: the path to the chain that is rendered next, and what the record of the tree
/// becomes when all were written.
///
/// Between its steps the rules of the tree must not change.
#[derive(Debug)]
pub(crate) struct TreeUpdate {
    extent: PartialRestore,
    /// As in [`DispatchTree`].
    pending: Option<BTreeSet<Prefix>>,
    /// Path from the root to the chain that is rendered next.
    open: Vec<OpenChain>,
    /// Targets of the rendered jumps.
    referenced: BTreeSet<Box<str>>,
    /// Targets that the rendered chains had before; some of them have no jump anymore.
    maybe_unreferenced: Vec<Box<str>>,
    root: RecordedChain,
    root_targets: Box<[Box<str>]>,
    /// Rendered tree chains by name.
    chains: Vec<(Box<str>, RecordedTreeChain)>,
    /// Chains that no jump references anymore; known after the last step.
    pub(crate) deleted: BTreeSet<Box<str>>,
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
    /// Returns the names of the rendered tree chains.
    pub(crate) fn chain_names(&self) -> impl Iterator<Item = &str> {
        self.chains.iter().map(|(name, _)| &**name)
    }

    /// Renders chains until one has to be written, and returns it; `None` after the last one.
    pub(crate) fn next(
        &mut self,
        tree: &DispatchTree,
        services: &BTreeMap<ServiceName, AppliedService>,
    ) -> Option<WrittenChain> {
        while let Some(mut open) = self.open.pop() {
            if let Some(target) = self.next_target(tree, &mut open) {
                self.open.push(open);
                self.open.push(target);
                continue;
            }
            let rules = open.text(tree, services);
            let written = match open.chain {
                None => self.record_root(tree, open, rules),
                Some(chain) => self.record_chain(tree, chain, open, rules),
            };
            if written.is_some() {
                return written;
            }
        }
        self.find_deleted(tree);
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
            let target = (!self.is_current(tree.chains.get(&name), chain))
                .then(|| OpenChain::new(&name, Some(chain), tree.content_of(chain)));
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
        let Some(pending) = &self.pending else {
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
        self.root = RecordedChain::of_lines(&rules);
        self.root_targets = open.targets.into();
        self.is_written(Some(&tree.root), &self.root)
            .then_some(WrittenChain {
                name: open.name,
                is_whole: true,
                rules,
            })
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
            is_inner: chain.is_inner,
            recorded,
            targets: std::mem::take(&mut open.targets).into(),
        };
        self.chains.push((open.name.clone(), new));
        let before = tree.chains.get(&open.name);
        let targets_before = before.into_iter().flat_map(|before| &before.targets);
        self.maybe_unreferenced.extend(targets_before.cloned());
        let before = before.map(|before| &before.recorded);
        if !self.is_written(before, &recorded) {
            return None;
        }
        let inserted = self.insertions(&open, &rules, tree, before);
        Some(WrittenChain {
            name: open.name,
            is_whole: inserted.is_none(),
            rules: inserted.unwrap_or(rules),
        })
    }

    fn is_written(&self, before: Option<&RecordedChain>, new: &RecordedChain) -> bool {
        let is_same = before.is_some_and(|before| before.holds(new.digest()));
        self.extent == PartialRestore::Kep3453 || !is_same
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
        tree: &DispatchTree,
        before: Option<&RecordedChain>,
    ) -> Option<String> {
        let (PartialRestore::ChangedChains, Some(changed)) = (self.extent, &self.pending) else {
            return None;
        };
        let (mut inserted, mut rest) = (String::new(), String::new());
        let mut lines = text.split_inclusive('\n').zip(1..);
        for part in &chain.parts {
            let (line_count, is_changed) = match part {
                ChainPart::Rules(destination) => {
                    let rules = tree.rules_of(*destination);
                    (rules.len(), changed.contains(destination))
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

    /// Finds the chains that no jump references anymore, and then those that only these referenced.
    fn find_deleted(&mut self, tree: &DispatchTree) {
        if self.pending.is_none() {
            // Every chain was rendered, so that `referenced` has all chains in use.
            self.maybe_unreferenced.extend(tree.chains.keys().cloned());
        }
        while let Some(name) = self.maybe_unreferenced.pop() {
            if self.referenced.contains(&name) || self.deleted.contains(&name) {
                continue;
            }
            if let Some(chain) = tree.chains.get(&name) {
                self.maybe_unreferenced
                    .extend(chain.targets.iter().cloned());
                self.deleted.insert(name);
            }
        }
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
    fn text(
        &self,
        tree: &DispatchTree,
        services: &BTreeMap<ServiceName, AppliedService>,
    ) -> String {
        let name = &self.name;
        let mut text = String::new();
        for part in &self.parts {
            match part {
                ChainPart::Rules(destination) => {
                    for (service, index) in tree.rules_of(*destination) {
                        let service = services.get(service);
                        let rule =
                            service.and_then(|service| service.dispatch.get(*index as usize));
                        let rule = rule.map_or(&[][..], |rule| &*rule.text);
                        text.extend(["-A ", name, &String::from_utf8_lossy(rule)]);
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
