//! Tree of one dispatch chain: its rules, and the chains that the last restores left in the kernel.
//!
//! After a change only the chains on the way to the changed destinations are rendered again, and
//! those whose text differs are written whole: a chain has few rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::rules::{Entry, RulePosition, RulesByDestination, TreeChain, TreeChainKind};
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
    /// Digest of the rules of the dispatch chain, without jumps to `KUBE-NODEPORTS`.
    root: TextDigest,
    /// Names of the chains that the dispatch chain jumps to.
    below_root: Box<[Box<str>]>,
    pending: Pending,
}

/// Tree chain in the kernel.
#[derive(Debug, Clone)]
struct RecordedTreeChain {
    /// Range, kind and level; `None` for a chain of which only the name is known.
    shape: Option<TreeChain>,
    /// Holds jumps to other tree chains.
    is_inner: bool,
    digest: TextDigest,
    /// Names of the chains that it jumps to.
    below: Box<[Box<str>]>,
}

/// Destinations whose chains may differ from the rules.
#[derive(Debug, Clone)]
enum Pending {
    Some(BTreeSet<Prefix>),
    All,
}

/// Extent to which the chains of a tree are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteExtent {
    /// Chains whose rules differ from those in the kernel.
    Changed,
    /// Every chain.
    All,
}

/// Chains of a tree to write and to delete.
#[derive(Debug, Default)]
pub(crate) struct TreeChanges {
    /// Written chains, each after those that it jumps to: its name, and its rules with `-A NAME`.
    pub(crate) written: Vec<(Box<str>, String)>,
    /// Rules of the dispatch chain; `None` if they are in the kernel already.
    pub(crate) root: Option<String>,
    /// Chains that no jump leads to anymore.
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
    pub(crate) fn rules(&self) -> u64 {
        let texts = self.written.iter().map(|(_, text)| text);
        let lines = texts.chain(&self.root).map(|text| text.lines().count());
        lines.sum::<usize>() as u64
    }

    /// Returns the number of written and deleted chains.
    pub(crate) fn chains(&self) -> u64 {
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
            below_root: Box::default(),
            pending: Pending::All,
        }
    }

    /// Replaces the rules of a Service. Rules of other dispatch chains are passed over.
    pub(crate) fn replace(
        &mut self,
        service: &ServiceName,
        before: &[DispatchRule],
        after: &[DispatchRule],
    ) {
        if before == after {
            return;
        }
        for (rule, position) in of_chain(self.dispatch, service, before) {
            self.rules.remove(rule, &position);
            self.note_change(rule);
        }
        for (rule, position) in of_chain(self.dispatch, service, after) {
            self.rules.add(rule, position);
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
            below: Box::default(),
        };
        self.chains.insert(name.into(), chain);
        self.pending = Pending::All;
    }

    /// Notes that a chain has unknown rules, so that it is written again. Returns whether the tree
    /// has a chain of this name.
    pub(crate) fn forget(&mut self, name: &str) -> bool {
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

    /// Returns the rules that a chain of the tree should hold, with `-A NAME`; `None` if the tree
    /// has no chain of this name.
    pub(crate) fn expected(&self, name: &str, text: RuleText<'_, '_>) -> Option<String> {
        let was_inner = |range: Prefix| is_inner(&self.chains, self.dispatch, range);
        if name == self.dispatch.name() {
            let entries = self.rules.of_root(&was_inner);
            return Some(root_text(&self.rules, self.dispatch, &entries, text));
        }
        let shape = self.chains.get(name)?.shape?;
        let entries = self.rules.of_chain(shape, &was_inner);
        Some(entries_text(name, self.dispatch, &entries, text))
    }

    /// Renders the chains that may differ, and records them as if the changes had been restored.
    pub(crate) fn changes(&mut self, extent: WriteExtent, text: RuleText<'_, '_>) -> TreeChanges {
        let pending = std::mem::replace(&mut self.pending, Pending::Some(BTreeSet::new()));
        let pending = match extent {
            WriteExtent::All => Pending::All,
            WriteExtent::Changed => pending,
        };
        let mut update = Update {
            dispatch: self.dispatch,
            rules: &self.rules,
            chains: &mut self.chains,
            extent,
            pending,
            text,
            changes: TreeChanges::default(),
            reached: BTreeSet::new(),
            left: Vec::new(),
        };
        update.update_root(&mut self.root, &mut self.below_root);
        update.delete_left();
        update.changes
    }

    fn note_change(&mut self, rule: &DispatchRule) {
        if let (Pending::Some(pending), Some(destination)) =
            (&mut self.pending, Prefix::of(rule.destination))
        {
            pending.insert(destination);
        }
    }
}

/// Text of the rule at a position: a blank, the rule without `-A CHAIN`, and a newline.
pub(crate) type RuleText<'f, 's> = &'f dyn Fn(&ServiceName, u32) -> &'s [u8];

/// Update of the recorded chains of a tree to its rules.
struct Update<'t, 'f, 's> {
    dispatch: DispatchChain,
    rules: &'t RulesByDestination,
    chains: &'t mut BTreeMap<Box<str>, RecordedTreeChain>,
    extent: WriteExtent,
    pending: Pending,
    text: RuleText<'f, 's>,
    changes: TreeChanges,
    /// Chains that a rendered jump leads to.
    reached: BTreeSet<Box<str>>,
    /// Chains that rendered chains led to before.
    left: Vec<Box<str>>,
}

impl Update<'_, '_, '_> {
    fn update_root(&mut self, recorded: &mut TextDigest, below: &mut Box<[Box<str>]>) {
        let entries = self.rules.of_root(&|range| self.was_inner(range));
        let below_before = std::mem::replace(below, self.update_below(&entries));
        self.left.extend(below_before);
        let text = root_text(self.rules, self.dispatch, &entries, self.text);
        let digest = TextDigest::of(text.as_bytes());
        if digest != *recorded || self.extent == WriteExtent::All {
            self.changes.root = Some(text);
        }
        *recorded = digest;
    }

    /// Updates the chains that a chain jumps to; returns their names.
    fn update_below(&mut self, entries: &[Entry<'_>]) -> Box<[Box<str>]> {
        let mut names = Vec::new();
        for entry in entries {
            let Entry::Jump(chain) = entry else {
                continue;
            };
            let name = chain.range.chain_name(self.dispatch);
            self.reached.insert(name.clone());
            if !self.is_current(&name, *chain) {
                self.update_chain(&name, *chain);
            }
            names.push(name);
        }
        names.into()
    }

    /// Reports whether a recorded chain, and all below it, are as they should be.
    fn is_current(&self, name: &str, chain: TreeChain) -> bool {
        let Pending::Some(pending) = &self.pending else {
            return false;
        };
        let recorded = self.chains.get(name);
        let range = chain.range.first()..=chain.range.last();
        recorded.is_some_and(|recorded| recorded.shape == Some(chain))
            && pending.range(range).next().is_none()
    }

    fn update_chain(&mut self, name: &str, chain: TreeChain) {
        let entries = self.rules.of_chain(chain, &|range| self.was_inner(range));
        let below = self.update_below(&entries);
        let text = entries_text(name, self.dispatch, &entries, self.text);
        let digest = TextDigest::of(text.as_bytes());
        let recorded = RecordedTreeChain {
            shape: Some(chain),
            is_inner: chain.kind == TreeChainKind::Inner,
            digest,
            below,
        };
        let before = self.chains.insert(name.into(), recorded);
        let is_same = before
            .as_ref()
            .is_some_and(|before| before.digest == digest);
        if !is_same || self.extent == WriteExtent::All {
            self.changes.written.push((name.into(), text));
        }
        let below_before = before.into_iter().flat_map(|before| before.below);
        self.left.extend(below_before);
    }

    /// Deletes the chains that no jump leads to anymore, with those below them.
    fn delete_left(&mut self) {
        if matches!(self.pending, Pending::All) {
            // Every chain in use was reached.
            self.left.extend(self.chains.keys().cloned());
        }
        while let Some(name) = self.left.pop() {
            if self.reached.contains(&name) {
                continue;
            }
            if let Some(chain) = self.chains.remove(&name) {
                self.left.extend(chain.below);
                self.changes.deleted.push(name);
            }
        }
        self.changes.deleted.sort_unstable();
    }

    fn was_inner(&self, range: Prefix) -> bool {
        is_inner(self.chains, self.dispatch, range)
    }
}

fn is_inner(
    chains: &BTreeMap<Box<str>, RecordedTreeChain>,
    dispatch: DispatchChain,
    range: Prefix,
) -> bool {
    let chain = chains.get(&range.chain_name(dispatch));
    chain.is_some_and(|chain| chain.is_inner)
}

/// Returns the rules of the dispatch chain itself.
fn root_text(
    rules: &RulesByDestination,
    dispatch: DispatchChain,
    entries: &[Entry<'_>],
    text: RuleText<'_, '_>,
) -> String {
    let several: Vec<RulePosition> = rules.several().cloned().collect();
    let mut root = entries_text(dispatch.name(), dispatch, &[Entry::Rules(&several)], text);
    root += &entries_text(dispatch.name(), dispatch, entries, text);
    root
}

fn entries_text(
    name: &str,
    dispatch: DispatchChain,
    entries: &[Entry<'_>],
    text: RuleText<'_, '_>,
) -> String {
    let mut rules = String::new();
    for entry in entries {
        // Writing to a String cannot fail.
        match entry {
            Entry::Rules(positions) => {
                for (service, at) in *positions {
                    let rule = String::from_utf8_lossy(text(service, *at));
                    let _ = write!(rules, "-A {name}{rule}");
                }
            }
            Entry::Jump(chain) => {
                let below = chain.range.chain_name(dispatch);
                let _ = writeln!(rules, "-A {name}{} -j {below}", chain.range);
            }
        }
    }
    rules
}

/// Returns the rules of a dispatch chain with their positions. Rules of the leftover Service, which
/// has no ports, are left out: they are deleted when the chain is written.
fn of_chain<'r>(
    dispatch: DispatchChain,
    service: &'r ServiceName,
    rules: &'r [DispatchRule],
) -> impl Iterator<Item = (&'r DispatchRule, RulePosition)> {
    let rules = (0..=u32::MAX).zip(rules);
    let own = rules.filter(move |(_, rule)| rule.key.chain == dispatch && rule.key.port.is_some());
    own.map(|(at, rule)| (rule, (service.clone(), at)))
}
