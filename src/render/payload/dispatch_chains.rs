//! Writes the dispatch chains of a full payload after all Services, where their shape depends on
//! the rules of all.

use super::changes::write_commands;
use crate::render::applied::{AppliedState, PayloadStats};
use crate::render::tree::TreeUpdate;
use crate::rules::Table;
use crate::ruleset::DispatchChain;

/// Dispatch chains of a table that are not written yet.
pub(super) struct DispatchChains {
    /// The last one comes next.
    rest: Vec<DispatchChain>,
    /// Tree of which some chains are written.
    tree: Option<(DispatchChain, TreeUpdate)>,
}

impl DispatchChains {
    pub(super) fn of(table: Table) -> Self {
        let all = DispatchChain::ALL.into_iter().rev();
        Self {
            rest: all.filter(|dispatch| dispatch.table() == table).collect(),
            tree: None,
        }
    }

    /// Writes the next chain of a tree, or the rules of the next flat dispatch chain. Returns
    /// whether there may be more.
    pub(super) fn write_next(
        &mut self,
        buf: &mut Vec<u8>,
        applied: &mut AppliedState,
        stats: &mut PayloadStats,
    ) -> bool {
        if let Some((dispatch, update)) = &mut self.tree {
            let Some(chain) = applied.next_tree_chain(*dispatch, update) else {
                self.tree = None;
                return true;
            };
            // The root is declared, and counted, with the fixed chains.
            if *chain.name == *dispatch.name() {
                buf.extend_from_slice(chain.rules.as_bytes());
            } else {
                chain.write(buf);
                stats.chains += 1;
            }
            return true;
        }
        let Some(dispatch) = self.rest.pop() else {
            return false;
        };
        let update = applied.begin_tree_update(dispatch);
        self.tree = update.map(|update| (dispatch, update));
        if self.tree.is_none() {
            let rules = applied.rule_groups(dispatch).flatten();
            write_commands(buf, "-A ", dispatch.name(), rules.map(|rule| &*rule.text));
        }
        true
    }
}
