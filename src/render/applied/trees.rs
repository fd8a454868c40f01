//! Trees of the applied state: made and given up as the number of rules requires, rendered, and
//! found in the kernel.

use std::collections::{BTreeMap, BTreeSet};

use super::state::{AppliedService, AppliedState};
use crate::model::ServiceName;
use crate::render::options::ServiceDispatch;
use crate::render::tree::{DispatchTree, TreeChanges, WriteExtent};
use crate::rules::Table;
use crate::ruleset::DispatchChain;

impl AppliedState {
    /// Makes trees of dispatch chains of a table that have enough rules, and flat chains of those
    /// that have too few. The next payload writes them.
    pub(crate) fn reshape(&mut self, table: Table, mode: ServiceDispatch) {
        for dispatch in DispatchChain::ALL {
            if dispatch.table() != table {
                continue;
            }
            let was_tree = self.trees.contains_key(&dispatch);
            let is_tree = mode.is_tree(dispatch, self.dispatch_len(dispatch), was_tree);
            match (was_tree, is_tree) {
                (false, true) => self.make_tree(dispatch),
                (true, false) => self.make_flat(dispatch),
                (false, false) | (true, true) => {}
            }
        }
    }

    /// Renders the chains of a tree that may differ from those in the kernel, and the dispatch
    /// chain in any case if it `needs_rewrite`; `None` if the dispatch chain is flat.
    pub(crate) fn tree_changes(
        &mut self,
        dispatch: DispatchChain,
        extent: WriteExtent,
        needs_rewrite: bool,
    ) -> Option<TreeChanges> {
        let services = &self.services;
        let tree = self.trees.get_mut(&dispatch)?;
        if needs_rewrite {
            tree.forget(dispatch.name());
        }
        Some(tree.changes(extent, &|name, at| rule_text(services, name, at)))
    }

    /// Returns the rules that a chain of a tree should hold, with `-A CHAIN`; `None` if there is no
    /// such chain.
    pub(super) fn expected_in_tree(&self, dispatch: DispatchChain, chain: &str) -> Option<String> {
        let tree = self.trees.get(&dispatch)?;
        tree.expected(chain, &|name, at| rule_text(&self.services, name, at))
    }

    /// Takes the tree chains of a table to delete.
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

    /// Makes a tree of a dispatch chain, of which these tree chains are in the kernel, with unknown
    /// rules: each with its name, and whether it holds jumps to others.
    pub(super) fn adopt_tree<'n>(
        &mut self,
        dispatch: DispatchChain,
        chains: impl Iterator<Item = (&'n str, bool)>,
    ) {
        self.make_tree(dispatch);
        if let Some(tree) = self.trees.get_mut(&dispatch) {
            for (name, is_inner) in chains {
                tree.note_live(name, is_inner);
            }
        }
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
    at: u32,
) -> &'s [u8] {
    let service = services.get(name);
    let rule = service.and_then(|service| service.dispatch.get(at as usize));
    rule.map_or(&[], |rule| &*rule.text)
}
