//! Counts the rules that a packet traverses, by chain.

use crate::rules::table::TracedTable;

/// Chain that the first packet of a connection enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraversedChain<'a> {
    /// Table of the chain.
    pub table: TracedTable,
    /// Name of the chain.
    pub chain: &'a str,
    /// Number of its rules that are evaluated, whether they match or not.
    pub rules: usize,
}

/// Chains that a packet entered so far, each once.
#[derive(Debug, Clone, Default)]
pub(super) struct TraversedChains<'a>(Vec<TraversedChain<'a>>);

impl<'a> TraversedChains<'a> {
    /// Counts the evaluation of a rule of a chain. `chain` is the name in the rule set, so that
    /// its address identifies the chain.
    pub(super) fn count(&mut self, table: TracedTable, chain: &'a str) {
        let mut latest_first = self.0.iter_mut().rev();
        match latest_first.find(|known| std::ptr::eq(known.chain, chain)) {
            Some(known) => known.rules += 1,
            None => self.0.push(TraversedChain {
                table,
                chain,
                rules: 1,
            }),
        }
    }

    /// Returns the number of evaluated rules.
    pub(super) fn rules(&self) -> usize {
        self.0.iter().map(|one| one.rules).sum()
    }

    pub(super) fn into_chains(self) -> Vec<TraversedChain<'a>> {
        self.0
    }
}
