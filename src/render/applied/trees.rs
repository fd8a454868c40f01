//! Trees of the applied state: a dispatch chain becomes a tree or flat again when its number of
//! rules crosses a threshold, and trees in the kernel are adopted.

use std::collections::{BTreeMap, BTreeSet};

use super::live::{LiveChains, LiveTreeChain};
use super::state::{AppliedService, AppliedState};
use crate::model::ServiceName;
use crate::render::tree::{
    DispatchTree, TreeChanges, TreeExtent, TreeThresholds, TreeUpdate, WrittenChain,
};
use crate::rules::{RulesDigest, Table};
use crate::ruleset::{DispatchChain, DispatchForm, tree_of};

impl AppliedState {
    /// Makes trees of the dispatch chains of a table that have enough rules, and flat chains of
    /// those that have too few. The next payload writes them.
    pub(crate) fn reshape(&mut self, table: Table, thresholds: TreeThresholds) {
        for dispatch in DispatchChain::ALL {
            if dispatch.table() != table {
                continue;
            }
            let before = self.form(dispatch);
            let after = thresholds.form(dispatch, self.dispatch_rule_count(dispatch), before);
            match (before, after) {
                (DispatchForm::Flat, DispatchForm::Tree) => self.make_tree(dispatch),
                (DispatchForm::Tree, DispatchForm::Flat) => self.make_flat(dispatch),
                (DispatchForm::Flat, DispatchForm::Flat)
                | (DispatchForm::Tree, DispatchForm::Tree) => {}
            }
        }
    }

    fn form(&self, dispatch: DispatchChain) -> DispatchForm {
        if self.trees.contains_key(&dispatch) {
            DispatchForm::Tree
        } else {
            DispatchForm::Flat
        }
    }

    /// Renders the chains of a tree that may differ from those in the kernel, and records them as
    /// if they had been restored, so that the next call does not return them again. `None` if the
    /// dispatch chain is flat.
    pub(crate) fn render_and_record_tree(
        &mut self,
        dispatch: DispatchChain,
        extent: TreeExtent,
    ) -> Option<TreeChanges> {
        let services = &self.services;
        let tree = self.trees.get_mut(&dispatch)?;
        Some(tree.render_and_record(extent, &|name, index| rule_text(services, name, index)))
    }

    /// Begins to render and record all chains of a tree one at a time, with
    /// [`Self::next_tree_chain`]; `None` if the dispatch chain is flat.
    pub(crate) fn begin_tree_update(&mut self, dispatch: DispatchChain) -> Option<TreeUpdate> {
        let tree = self.trees.get_mut(&dispatch)?;
        Some(tree.begin_update(TreeExtent::AllChains))
    }

    /// Renders and records the next chain that has to be written; `None` after the last one.
    pub(crate) fn next_tree_chain(
        &mut self,
        dispatch: DispatchChain,
        update: &mut TreeUpdate,
    ) -> Option<WrittenChain> {
        let services = &self.services;
        let tree = self.trees.get_mut(&dispatch)?;
        update.next(tree, &|name, index| rule_text(services, name, index))
    }

    /// Returns the desired rules of a chain of a tree, with `-A CHAIN`; `None` if no tree has such
    /// a chain.
    pub(super) fn desired_in_tree(&self, dispatch: DispatchChain, chain: &str) -> Option<String> {
        let tree = self.trees.get(&dispatch)?;
        tree.desired(chain, &|name, index| rule_text(&self.services, name, index))
    }

    /// Returns the tree chains of a table that the caller deletes, and records them as deleted.
    pub(crate) fn take_unused_tree_chains(&mut self, table: Table) -> Vec<Box<str>> {
        let all = std::mem::take(&mut self.unused_tree_chains);
        let (unused, rest): (BTreeSet<_>, _) = all.into_iter().partition(|(of, _)| *of == table);
        self.unused_tree_chains = rest;
        unused.into_iter().map(|(_, name)| name).collect()
    }

    /// Returns all tree chains in the kernel, also those to be deleted.
    pub(super) fn all_tree_chains(&self) -> BTreeSet<(Table, Box<str>)> {
        let used = self.tree_chains();
        let used = used.map(|(table, name)| (table, name.into()));
        used.chain(self.unused_tree_chains.iter().cloned())
            .collect()
    }

    /// Returns the tree chains in use, with their tables.
    pub(super) fn tree_chains(&self) -> impl Iterator<Item = (Table, &str)> {
        let trees = self.trees.iter();
        trees.flat_map(|(dispatch, tree)| tree.names().map(|name| (dispatch.table(), name)))
    }

    /// Returns the names of the tree chains of a table.
    pub(crate) fn tree_chain_names(&self, table: Table) -> BTreeSet<&str> {
        let of_table = self.tree_chains().filter(|(of, _)| *of == table);
        of_table.map(|(_, name)| name).collect()
    }

    /// Makes trees of the dispatch chains in `roots`, with the tree chains that the kernel has.
    /// The next partial payload writes the chains whose rules in the kernel are not the desired
    /// ones, and deletes the tree chains that are not desired, except those that a third-party rule
    /// references. Returns the chains to write and those to delete.
    pub(super) fn adopt_trees(
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
                if in_kernel.map(LiveTreeChain::digest) != Some(desired) {
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

    fn make_tree(&mut self, dispatch: DispatchChain) {
        let mut tree = DispatchTree::new(dispatch);
        for (name, service) in &self.services {
            tree.replace(name, &[], &service.dispatch);
        }
        self.trees.insert(dispatch, tree);
    }

    fn make_flat(&mut self, dispatch: DispatchChain) {
        let tree = self.trees.remove(&dispatch).into_iter();
        let names: Vec<Box<str>> = tree
            .flat_map(|tree| tree.names().map(Box::from).collect::<Vec<_>>())
            .collect();
        let unused = names.into_iter().map(|name| (dispatch.table(), name));
        self.unused_tree_chains.extend(unused);
        self.chains_to_rewrite.insert(dispatch);
    }
}

/// Returns the text of a dispatch rule of one Service.
fn rule_text<'s>(
    services: &'s BTreeMap<ServiceName, AppliedService>,
    name: &ServiceName,
    index: u32,
) -> &'s [u8] {
    let service = services.get(name);
    let rule = service.and_then(|service| service.dispatch.get(index as usize));
    rule.map_or(&[], |rule| &*rule.text)
}
