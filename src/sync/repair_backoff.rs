//! Delays repairs of chains that another program changes again and again: two programs must not
//! undo each other's work without a pause.
//!
//! There are two kinds of delay, because the harm differs:
//!
//! - Changed or missing rules make Services unreachable: [`RepairBackoff`] delays the sync that
//!   repairs them, by a minute at most. A sync for another reason repairs them earlier.
//! - Third-party rules in a fixed chain do little harm, since the kube-proxy rules are complete:
//!   [`RewriteBackoff`] delays the rewrite of the chain, by an hour at most. A restore that writes
//!   the chain for another reason, for example a full one, removes them earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::pacer::DoublingDelay;
use crate::rules::Table;

/// Number of repairs in a row without delay: an administrator may edit rules a few times.
const REPAIRS_WITHOUT_DELAY: u32 = 3;

/// Delay of the repairs after [`REPAIRS_WITHOUT_DELAY`].
const REPAIR_DELAY: DoublingDelay = DoublingDelay {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(60),
};

/// Time without changes after which a repaired chain is forgotten, counted from its repair, in
/// addition to the delay that the repair had.
const FORGET_AFTER: Duration = Duration::from_secs(2);

/// Maximum number of remembered chains; further ones are repaired without delay. That many changed
/// chains mean a flush, not two programs that change single chains in turn.
const MOST_CHAINS: usize = 1000;

/// Table and name under which repairs are counted. The name is that of a chain (for a jump, the
/// chain that holds it), of a Service whose chains are not known by name, or [`WHOLE_TABLE`].
pub(super) type RepairKey = (Table, Box<str>);

/// Name in a [`RepairKey`] for changed chains of a table that are not known by name.
pub(super) const WHOLE_TABLE: &str = "*";

/// Repairs of one key: a chain, a Service or a whole table.
#[derive(Debug, Clone, Copy)]
struct Repairs {
    /// Number of repairs in a row.
    count: u32,
    /// Until then, another change counts as a repetition.
    forget_at: Instant,
}

/// Number of recent repairs of each chain, Service or whole table.
#[derive(Debug, Default)]
pub(super) struct RepairBackoff(BTreeMap<RepairKey, Repairs>);

impl RepairBackoff {
    /// Counts a repair of these chains, and returns its delay: the shortest of theirs, because a
    /// chain that is not contested must not wait for others. The sync repairs all of them.
    pub(super) fn count_repair(
        &mut self,
        chains: impl IntoIterator<Item = RepairKey>,
        now: Instant,
    ) -> Duration {
        self.0.retain(|_, repairs| now < repairs.forget_at);
        let mut shortest = None;
        for chain in chains {
            let known = self.0.get(&chain);
            if known.is_none() && self.0.len() >= MOST_CHAINS {
                shortest = Some(Duration::ZERO);
                continue;
            }
            let count = known.map_or(0, |repairs| repairs.count).saturating_add(1);
            let wait = match count.saturating_sub(REPAIRS_WITHOUT_DELAY) {
                0 => Duration::ZERO,
                delayed => REPAIR_DELAY.after(delayed),
            };
            let repaired_at = now + wait;
            let forget_at = repaired_at + wait + FORGET_AFTER;
            self.0.insert(chain, Repairs { count, forget_at });
            shortest = Some(shortest.map_or(wait, |other: Duration| other.min(wait)));
        }
        shortest.unwrap_or_default()
    }

    /// Returns the chains whose next repair would be delayed. Unlike [`Self::delayed`], includes
    /// chains of which no repair was delayed so far.
    pub(super) fn contested(&self, now: Instant) -> BTreeSet<RepairKey> {
        let known = self.0.iter();
        let contested = known.filter(|(_, repairs)| {
            now < repairs.forget_at && repairs.count >= REPAIRS_WITHOUT_DELAY
        });
        contested.map(|(chain, _)| chain.clone()).collect()
    }

    /// Returns the number of chains whose last repair was delayed, for the metric.
    pub(super) fn delayed(&self) -> usize {
        let is_delayed = |repairs: &&Repairs| repairs.count > REPAIRS_WITHOUT_DELAY;
        self.0.values().filter(is_delayed).count()
    }
}

/// Maximum wait between two rewrites of a chain with third-party rules: the interval of full syncs
/// of kube-proxy, which remove such rules in clusters of up to 1,000 endpoints.
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
/// The other program may add such a rule again each time it is removed. The chain is rewritten at
/// once, then at growing intervals while the rule comes back.
#[derive(Debug, Default)]
pub(super) struct RewriteBackoff(BTreeMap<(Table, &'static str), Rewrites>);

/// Chain to rewrite now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueRewrite {
    pub(super) chain: (Table, &'static str),
    /// Minimum time until the next rewrite.
    pub(super) wait: Duration,
    /// The chain was rewritten before, and third-party rules are back.
    pub(super) is_back: bool,
}

impl RewriteBackoff {
    /// Reports whether a fixed chain of this table holds third-party rules or recently did.
    pub(super) fn has(&self, table: Table) -> bool {
        self.0.keys().any(|(of, _)| *of == table)
    }

    /// Notes the chains in which a check found third-party rules; returns those to rewrite now.
    /// `tables` are those that could be read. A chain may be rewritten again after `first_wait`,
    /// which doubles each time.
    pub(super) fn due(
        &mut self,
        found: &[(Table, &'static str)],
        tables: &[Table],
        first_wait: Duration,
        now: Instant,
    ) -> Vec<DueRewrite> {
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
            let wait = known.map_or(first_wait, |rewrites| {
                (rewrites.wait * 2).min(LONGEST_REWRITE_WAIT)
            });
            let next = now + wait;
            self.0.insert(*chain, Rewrites { next, wait });
            due.push(DueRewrite {
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

    fn key(chain: &str) -> RepairKey {
        (Table::Nat, chain.into())
    }

    #[test]
    fn a_chain_that_is_changed_again_and_again_waits_longer_each_time() {
        let (mut backoff, mut now) = (RepairBackoff::default(), start());
        let mut waits = Vec::new();
        for _ in 0..11 {
            let wait = backoff.count_repair([key("KUBE-SERVICES")], now);
            waits.push(wait.as_secs());
            now += wait + Duration::from_millis(10);
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.delayed(), 1);
        assert_eq!(
            backoff.count_repair([key("KUBE-NODEPORTS")], now),
            Duration::ZERO
        );
    }

    #[test]
    fn a_chain_that_stays_repaired_is_forgotten() {
        let (mut backoff, now) = (RepairBackoff::default(), start());
        for _ in 0..REPAIRS_WITHOUT_DELAY {
            assert!(backoff.contested(now).is_empty());
            assert_eq!(backoff.count_repair([key("A")], now), Duration::ZERO);
        }
        assert_eq!(backoff.contested(now), [key("A")].into());
        assert_eq!(backoff.count_repair([key("A")], now), REPAIR_DELAY.first);
        let later = now + REPAIR_DELAY.first * 2 + FORGET_AFTER;
        assert!(backoff.contested(later).is_empty());
        assert_eq!(backoff.count_repair([key("A")], later), Duration::ZERO);
        assert_eq!(backoff.delayed(), 0);
    }

    #[test]
    fn a_chain_that_is_changed_for_the_first_time_does_not_wait_for_a_contested_one() {
        let (mut backoff, now) = (RepairBackoff::default(), start());
        for _ in 0..7 {
            backoff.count_repair([key("A")], now);
        }
        assert_eq!(
            backoff.count_repair([key("A"), key("B")], now),
            Duration::ZERO
        );
        // The contested one alone waits longer still.
        assert_eq!(backoff.count_repair([key("A")], now).as_secs(), 32);
    }

    #[test]
    fn a_flush_of_many_chains_takes_bounded_memory() {
        let mut backoff = RepairBackoff::default();
        let chains = (0..5000).map(|number| key(&number.to_string()));
        assert_eq!(backoff.count_repair(chains, start()), Duration::ZERO);
        assert_eq!(backoff.0.len(), MOST_CHAINS);
    }

    const FORWARD: (Table, &str) = (Table::Filter, "KUBE-FORWARD");

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
