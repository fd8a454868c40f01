//! Waits before repairs of rules that another program keeps changing.
//!
//! The first repairs go out at once. A program that undoes them again and again, such as a second
//! proxy, must not make the two undo each other's work without a pause.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::rules::Table;

/// Repairs in a row that go out at once: an administrator who tries commands is not a second proxy.
const AT_ONCE: u32 = 3;

/// Wait before the repair after these; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(1);

/// Longest wait.
const LONGEST: Duration = Duration::from_secs(60);

/// Time for which a chain has to stay repaired to be forgotten, counted from the end of the
/// wait.
const CALM: Duration = Duration::from_secs(2);

/// Chains that are remembered. With more, the ones repaired last are forgotten: what changes so
/// much at once is a flush, and no contest over single chains.
const MOST_CHAINS: usize = 1000;

/// A chain whose rules are repaired; of a jump, the chain that it stands in.
pub(super) type Key = (Table, Box<str>);

/// Repairs of one chain.
#[derive(Debug, Clone, Copy)]
struct Repairs {
    count: u32,
    wait: Duration,
    /// Another change before this belongs to the same contest.
    calm: Instant,
}

/// The chains that were repaired lately.
#[derive(Debug, Default)]
pub(super) struct Backoff(BTreeMap<Key, Repairs>);

impl Backoff {
    /// Returns how long the repair of these chains has to wait. It goes out with the next sync that
    /// has another cause, if that comes sooner.
    pub(super) fn wait(&mut self, chains: impl IntoIterator<Item = Key>, now: Instant) -> Duration {
        self.0.retain(|_, repairs| now < repairs.calm);
        let mut longest = Duration::ZERO;
        for chain in chains {
            let known = self.0.get(&chain);
            if known.is_none() && self.0.len() >= MOST_CHAINS {
                continue;
            }
            let count = known.map_or(0, |repairs| repairs.count).saturating_add(1);
            let wait = match known {
                Some(repairs) if count > AT_ONCE => (repairs.wait * 2).clamp(FIRST, LONGEST),
                _ => Duration::ZERO,
            };
            let calm = now + wait * 2 + CALM;
            self.0.insert(chain, Repairs { count, wait, calm });
            longest = longest.max(wait);
        }
        longest
    }

    /// Returns the chains that were repaired so often that the next repair has to wait.
    pub(super) fn contested(&self, now: Instant) -> BTreeSet<Key> {
        let known = self.0.iter();
        let contested = known.filter(|(_, repairs)| now < repairs.calm && repairs.count >= AT_ONCE);
        contested.map(|(chain, _)| chain.clone()).collect()
    }

    /// Returns the number of chains whose last repair had to wait.
    pub(super) fn waiting(&self) -> usize {
        let waits = |repairs: &&Repairs| !repairs.wait.is_zero();
        self.0.values().filter(waits).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(chain: &str) -> Key {
        (Table::Nat, chain.into())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant cannot be made otherwise"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_chain_that_is_changed_again_and_again_waits_longer_each_time() {
        let (mut backoff, mut now) = (Backoff::default(), start());
        let mut waits = Vec::new();
        for _ in 0..11 {
            let wait = backoff.wait([key("KUBE-SERVICES")], now);
            waits.push(wait.as_secs());
            now += wait + Duration::from_millis(10);
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.waiting(), 1);
        assert_eq!(backoff.wait([key("KUBE-NODEPORTS")], now), Duration::ZERO);
    }

    #[test]
    fn a_chain_that_stays_repaired_is_forgotten() {
        let (mut backoff, now) = (Backoff::default(), start());
        for _ in 0..AT_ONCE {
            assert!(backoff.contested(now).is_empty());
            assert_eq!(backoff.wait([key("A")], now), Duration::ZERO);
        }
        assert_eq!(backoff.contested(now), [key("A")].into());
        assert_eq!(backoff.wait([key("A")], now), FIRST);
        let later = now + FIRST * 2 + CALM;
        assert!(backoff.contested(later).is_empty());
        assert_eq!(backoff.wait([key("A")], later), Duration::ZERO);
        assert_eq!(backoff.waiting(), 0);
    }

    #[test]
    fn a_flush_of_very_many_chains_takes_bounded_memory() {
        let mut backoff = Backoff::default();
        let chains = (0..5000).map(|number| key(&number.to_string()));
        assert_eq!(backoff.wait(chains, start()), Duration::ZERO);
        assert_eq!(backoff.0.len(), MOST_CHAINS);
    }
}
