//! Update of a tree to its rules: renders the chains that may differ from those in the kernel, one
//! at a time, and records each as if it had been restored.
//!
//! Each chain comes after those that it jumps to, and the root comes last: the kernel accepts a
//! jump only if its target exists.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::dispatch_tree::{DispatchTree, Pending, RecordedTreeChain};
use super::rules::{ChainPart, RuleReference, RulesByDestination, TreeChain, TreeChainKind};
use crate::model::ServiceName;
use crate::render::service::{TextDigest, write_chain_declarations};
use crate::ruleset::{DispatchChain, Prefix};

/// Extent of a restore: the chains of a tree that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeExtent {
    /// Chains whose rules differ from those in the kernel.
    ChangedChains,
    /// Every chain.
    AllChains,
}

/// Chain to write.
#[derive(Debug)]
pub(crate) struct WrittenChain {
    /// Name of the tree chain; of the root, that of the dispatch chain.
    pub(crate) name: Box<str>,
    /// Rules with `-A NAME`; of the root, without jumps to `KUBE-NODEPORTS`.
    pub(crate) rules: String,
}

/// Chains of a tree to write and to delete.
#[derive(Debug, Default)]
pub(crate) struct TreeChanges {
    /// Written tree chains, each after those that it jumps to.
    pub(crate) written: Vec<WrittenChain>,
    /// Rules of the root, without jumps to `KUBE-NODEPORTS`; `None` if they are in the kernel
    /// already.
    pub(crate) root: Option<String>,
    /// Chains that no jump references anymore.
    pub(crate) deleted: Vec<Box<str>>,
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

impl DispatchTree {
    /// Begins an update. If it is not taken to its end, or if the restore fails, the caller puts
    /// back a copy of the tree, or forgets it.
    pub(crate) fn begin_update(&mut self, extent: TreeExtent) -> TreeUpdate {
        let pending = std::mem::replace(&mut self.pending, Pending::Destinations(BTreeSet::new()));
        let parts = self.rules.of_root(&|prefix| self.kind_of(prefix));
        let root = OpenChain::new(self.dispatch.name(), None, parts);
        TreeUpdate {
            extent,
            pending: match extent {
                TreeExtent::AllChains => Pending::All,
                TreeExtent::ChangedChains => pending,
            },
            open: vec![root],
            referenced: BTreeSet::new(),
            maybe_unreferenced: Vec::new(),
        }
    }

    /// Renders and records all changes at once, so that the next call does not return them again.
    pub(crate) fn render_and_record(
        &mut self,
        extent: TreeExtent,
        text_of: TextOfRule<'_, '_>,
    ) -> TreeChanges {
        let mut update = self.begin_update(extent);
        let mut changes = TreeChanges::default();
        while let Some(chain) = update.next(self, text_of) {
            if *chain.name == *self.dispatch.name() {
                changes.root = Some(chain.rules);
            } else {
                changes.written.push(chain);
            }
        }
        changes.deleted = update.finish(self);
        changes
    }

    /// Returns the desired rules of a chain of the tree, with `-A NAME` and without jumps to
    /// `KUBE-NODEPORTS`; `None` if the tree has no chain of this name.
    pub(crate) fn desired(&self, name: &str, text_of: TextOfRule<'_, '_>) -> Option<String> {
        let recorded = |prefix: Prefix| self.kind_of(prefix);
        let chain = if name == self.dispatch.name() {
            None
        } else {
            Some(self.chains.get(name)?.shape?)
        };
        let parts = match chain {
            None => self.rules.of_root(&recorded),
            Some(chain) => self.rules.content_of(chain, &recorded),
        };
        Some(OpenChain::new(name, chain, parts).text(self.dispatch, &self.rules, text_of))
    }
}

impl TreeUpdate {
    /// Renders chains until one has to be written, and returns it; `None` after the last one.
    pub(crate) fn next(
        &mut self,
        tree: &mut DispatchTree,
        text_of: TextOfRule<'_, '_>,
    ) -> Option<WrittenChain> {
        while let Some(mut open) = self.open.pop() {
            if let Some(target) = self.next_target(tree, &mut open) {
                self.open.push(open);
                self.open.push(target);
                continue;
            }
            let rules = open.text(tree.dispatch, &tree.rules, text_of);
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
        tree: &mut DispatchTree,
        open: OpenChain,
        rules: String,
    ) -> Option<WrittenChain> {
        let targets_before = std::mem::replace(&mut tree.root_targets, open.targets.into());
        self.maybe_unreferenced.extend(targets_before);
        let digest = TextDigest::of(rules.as_bytes());
        let before = std::mem::replace(&mut tree.root, digest);
        let name = open.name;
        self.is_written(Some(before), digest)
            .then_some(WrittenChain { name, rules })
    }

    fn record_chain(
        &mut self,
        tree: &mut DispatchTree,
        chain: TreeChain,
        open: OpenChain,
        rules: String,
    ) -> Option<WrittenChain> {
        let name = open.name;
        let digest = TextDigest::of(rules.as_bytes());
        let recorded = RecordedTreeChain {
            shape: Some(chain),
            is_inner: chain.kind == TreeChainKind::Inner,
            digest,
            targets: open.targets.into(),
        };
        let before = tree.chains.insert(name.clone(), recorded);
        let digest_before = before.as_ref().map(|before| before.digest);
        let targets_before = before.into_iter().flat_map(|before| before.targets);
        self.maybe_unreferenced.extend(targets_before);
        self.is_written(digest_before, digest)
            .then_some(WrittenChain { name, rules })
    }

    fn is_written(&self, before: Option<TextDigest>, digest: TextDigest) -> bool {
        self.extent == TreeExtent::AllChains || before != Some(digest)
    }

    /// Records the chains that no jump references anymore as deleted, and then those that only
    /// these referenced; returns their names. To be called after the last chain.
    pub(crate) fn finish(mut self, tree: &mut DispatchTree) -> Vec<Box<str>> {
        if matches!(self.pending, Pending::All) {
            // Every chain was rendered, so that `referenced` has all chains in use.
            self.maybe_unreferenced.extend(tree.chains.keys().cloned());
        }
        let mut deleted = Vec::new();
        while let Some(name) = self.maybe_unreferenced.pop() {
            if self.referenced.contains(&name) {
                continue;
            }
            if let Some(chain) = tree.chains.remove(&name) {
                self.maybe_unreferenced.extend(chain.targets);
                deleted.push(name);
            }
        }
        deleted.sort_unstable();
        deleted
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
        dispatch: DispatchChain,
        rules: &RulesByDestination,
        text_of: TextOfRule<'_, '_>,
    ) -> String {
        let name = &self.name;
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
                    let target = chain.prefix.chain_name(dispatch);
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "-A {name}{} -j {target}", chain.prefix);
                }
            }
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

impl WrittenChain {
    /// Appends the declaration of a tree chain and its rules.
    pub(crate) fn write(&self, buf: &mut Vec<u8>) {
        write_chain_declarations(buf, &[&self.name]);
        buf.extend_from_slice(self.rules.as_bytes());
    }
}

impl TreeChanges {
    /// Appends the declaration and the rules of each written chain.
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
        (self.written.len() + self.deleted.len() + root) as u64
    }
}
