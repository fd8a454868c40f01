//! When a fixed chain that holds third-party rules is written anew.
//!
//! Such a rule may come from a program that puts it back each time it is removed. The chain is
//! rewritten at once, and again at growing intervals while the rule keeps coming back: without an
//! end to it, two programs would undo each other's work for ever.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::rules::Table;

/// A fixed chain.
pub(super) type FixedChain = (Table, &'static str);

/// The longest time for which third-party rules stay. kube-proxy leaves them for as long: until its
/// next full sync.
const LONGEST: Duration = Duration::from_secs(3600);

/// Rewrites of one chain.
#[derive(Debug, Clone, Copy)]
struct Rewrites {
    /// Not again before this.
    next: Instant,
    /// Time from the last rewrite to that.
    wait: Duration,
}

/// The chains that were rewritten lately.
#[derive(Debug, Default)]
pub(super) struct EditedChains(BTreeMap<FixedChain, Rewrites>);

/// A chain to rewrite now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edited {
    pub(super) chain: FixedChain,
    /// Not rewritten again before this has passed.
    pub(super) wait: Duration,
    /// The rules are back after the chain was rewritten.
    pub(super) is_back: bool,
}

impl EditedChains {
    /// Reports whether chains of a table hold third-party rules or held some lately.
    pub(super) fn has(&self, table: Table) -> bool {
        self.0.keys().any(|(of, _)| *of == table)
    }

    /// Takes in which chains held third-party rules at a check of these tables; returns those that
    /// are due. The first wait is `first`.
    pub(super) fn due(
        &mut self,
        found: &[FixedChain],
        tables: &[Table],
        first: Duration,
        now: Instant,
    ) -> Vec<Edited> {
        // A chain that was found clean after its wait is forgotten.
        self.0.retain(|chain, rewrites| {
            let (table, _) = chain;
            now < rewrites.next || found.contains(chain) || !tables.contains(table)
        });
        let mut due = Vec::new();
        for chain in found {
            let known = self.0.get(chain).copied();
            if known.is_some_and(|rewrites| now < rewrites.next) {
                continue;
            }
            let wait = known.map_or(first, |rewrites| (rewrites.wait * 2).min(LONGEST));
            let next = now + wait;
            self.0.insert(*chain, Rewrites { next, wait });
            due.push(Edited {
                chain: *chain,
                wait,
                is_back: known.is_some(),
            });
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARD: FixedChain = (Table::Filter, "KUBE-FORWARD");

    /// Seconds at which the chain is rewritten, checked every 30 s, if it is found edited then.
    fn rewrites(is_edited: impl Fn(u64) -> bool, until: u64) -> Vec<u64> {
        #[expect(
            clippy::disallowed_methods,
            reason = "an Instant cannot be made otherwise"
        )]
        let start = Instant::now();
        let mut chains = EditedChains::default();
        let seconds = (0..until).step_by(30);
        let due = seconds.filter(|second| {
            let found = if is_edited(*second) {
                &[FORWARD][..]
            } else {
                &[]
            };
            let now = start + Duration::from_secs(*second);
            !chains
                .due(found, &Table::ALL, Duration::from_secs(30), now)
                .is_empty()
        });
        due.collect()
    }

    #[test]
    fn rules_that_keep_coming_back_are_removed_at_growing_intervals() {
        let hours = 4 * 3600;
        let always = rewrites(|_| true, hours);
        assert_eq!(always, [0, 30, 90, 210, 450, 930, 1890, 3810, 7410, 11010]);
    }

    #[test]
    fn a_rule_that_stays_away_is_forgotten() {
        // Once, and again ten minutes later.
        assert_eq!(rewrites(|second| second % 600 == 0, 1300), [0, 600, 1200]);
    }
}
