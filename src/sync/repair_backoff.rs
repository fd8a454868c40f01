//! Delays repairs of chains that another program changes again and again: two programs must not
//! undo each other's work without a pause.
//!
//! Two rules of delay, because the harm differs:
//!
//! - Changed or missing rules keep packets from Services: [`RepairBackoff`] delays the request for
//!   a sync, by a minute at most. A sync for another reason repairs them earlier.
//! - Third-party rules in a fixed chain leave the proxy's rules complete: [`RewriteBackoff`] leaves
//!   them there until the chain is due, for up to an hour, whatever syncs run meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::drift::ChainKey;
use crate::rules::Table;

/// Repairs in a row without delay: an administrator may edit rules a few times.
const AT_ONCE: u32 = 3;

/// Delay of the first repair after these; it doubles with each further one.
const FIRST_REPAIR_WAIT: Duration = Duration::from_secs(1);

/// Maximum delay of a repair.
const LONGEST_REPAIR_WAIT: Duration = Duration::from_secs(60);

/// Time after the delayed repair without another change until a chain is forgotten.
const CALM: Duration = Duration::from_secs(2);

/// Maximum number of remembered chains; further ones are repaired without delay. So many changes
/// at once are a flush, not two programs that fight over single chains.
const MOST_CHAINS: usize = 1000;

/// Repairs of one chain.
#[derive(Debug, Clone, Copy)]
struct Repairs {
    count: u32,
    wait: Duration,
    /// A change before this time counts as a repetition.
    calm: Instant,
}

/// Chains that were repaired recently, with the delay of their next repair.
#[derive(Debug, Default)]
pub(super) struct RepairBackoff(BTreeMap<ChainKey, Repairs>);

impl RepairBackoff {
    /// Returns the delay of the repair of these chains. An earlier sync for another reason repairs
    /// them.
    pub(super) fn wait(
        &mut self,
        chains: impl IntoIterator<Item = ChainKey>,
        now: Instant,
    ) -> Duration {
        self.0.retain(|_, repairs| now < repairs.calm);
        let mut longest = Duration::ZERO;
        for chain in chains {
            let known = self.0.get(&chain);
            if known.is_none() && self.0.len() >= MOST_CHAINS {
                continue;
            }
            let count = known.map_or(0, |repairs| repairs.count).saturating_add(1);
            let wait = match known {
                Some(repairs) if count > AT_ONCE => {
                    (repairs.wait * 2).clamp(FIRST_REPAIR_WAIT, LONGEST_REPAIR_WAIT)
                }
                _ => Duration::ZERO,
            };
            let calm = now + wait * 2 + CALM;
            self.0.insert(chain, Repairs { count, wait, calm });
            longest = longest.max(wait);
        }
        longest
    }

    /// Returns the chains that were repaired so often that the next repair is delayed.
    pub(super) fn contested(&self, now: Instant) -> BTreeSet<ChainKey> {
        let known = self.0.iter();
        let contested = known.filter(|(_, repairs)| now < repairs.calm && repairs.count >= AT_ONCE);
        contested.map(|(chain, _)| chain.clone()).collect()
    }

    /// Returns the number of chains whose last repair was delayed.
    pub(super) fn delayed(&self) -> usize {
        let waits = |repairs: &&Repairs| !repairs.wait.is_zero();
        self.0.values().filter(waits).count()
    }
}

/// A fixed chain.
pub(super) type FixedChain = (Table, &'static str);

/// Maximum wait between two rewrites of a chain with third-party rules. kube-proxy leaves such
/// rules for as long: until its next full sync.
const LONGEST_REWRITE_WAIT: Duration = Duration::from_secs(3600);

/// Rewrites of one chain.
#[derive(Debug, Clone, Copy)]
struct Rewrites {
    /// Earliest time of the next rewrite.
    next: Instant,
    /// Time between the last rewrite and `next`.
    wait: Duration,
}

/// Chains that were rewritten recently because of third-party rules.
///
/// A program may put such a rule back each time it is removed. The chain is rewritten at once, and
/// again at growing intervals while the rule keeps coming back: otherwise two programs would undo
/// each other's work forever.
#[derive(Debug, Default)]
pub(super) struct RewriteBackoff(BTreeMap<FixedChain, Rewrites>);

/// Chain to rewrite now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edited {
    pub(super) chain: FixedChain,
    /// Time until the next rewrite at the earliest.
    pub(super) wait: Duration,
    /// The chain was rewritten before, and third-party rules are back.
    pub(super) is_back: bool,
}

impl RewriteBackoff {
    /// Reports whether chains of a table hold third-party rules or recently did.
    pub(super) fn has(&self, table: Table) -> bool {
        self.0.keys().any(|(of, _)| *of == table)
    }

    /// Notes the chains that held third-party rules at a check of these tables; returns those that
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
            let wait = known.map_or(first, |rewrites| {
                (rewrites.wait * 2).min(LONGEST_REWRITE_WAIT)
            });
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

    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant cannot be made otherwise"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    fn key(chain: &str) -> ChainKey {
        (Table::Nat, chain.into())
    }

    #[test]
    fn a_chain_that_is_changed_again_and_again_waits_longer_each_time() {
        let (mut backoff, mut now) = (RepairBackoff::default(), start());
        let mut waits = Vec::new();
        for _ in 0..11 {
            let wait = backoff.wait([key("KUBE-SERVICES")], now);
            waits.push(wait.as_secs());
            now += wait + Duration::from_millis(10);
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.delayed(), 1);
        assert_eq!(backoff.wait([key("KUBE-NODEPORTS")], now), Duration::ZERO);
    }

    #[test]
    fn a_chain_that_stays_repaired_is_forgotten() {
        let (mut backoff, now) = (RepairBackoff::default(), start());
        for _ in 0..AT_ONCE {
            assert!(backoff.contested(now).is_empty());
            assert_eq!(backoff.wait([key("A")], now), Duration::ZERO);
        }
        assert_eq!(backoff.contested(now), [key("A")].into());
        assert_eq!(backoff.wait([key("A")], now), FIRST_REPAIR_WAIT);
        let later = now + FIRST_REPAIR_WAIT * 2 + CALM;
        assert!(backoff.contested(later).is_empty());
        assert_eq!(backoff.wait([key("A")], later), Duration::ZERO);
        assert_eq!(backoff.delayed(), 0);
    }

    #[test]
    fn a_flush_of_many_chains_takes_bounded_memory() {
        let mut backoff = RepairBackoff::default();
        let chains = (0..5000).map(|number| key(&number.to_string()));
        assert_eq!(backoff.wait(chains, start()), Duration::ZERO);
        assert_eq!(backoff.0.len(), MOST_CHAINS);
    }

    const FORWARD: FixedChain = (Table::Filter, "KUBE-FORWARD");

    /// Seconds at which the chain is rewritten, checked every 30 s, if it is found edited then.
    fn rewrites(is_edited: impl Fn(u64) -> bool, until: u64) -> Vec<u64> {
        let start = start();
        let mut chains = RewriteBackoff::default();
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
