//! Counts the objects of a kind, to notice that most of them are gone at once.
//!
//! Such a change is obeyed, since it may be meant; but the log should show it to an operator who
//! looks for the reason of an outage.

use std::time::Duration;

use tokio::time::Instant;

/// Objects that go within this are counted together.
const WINDOW: Duration = Duration::from_secs(60);

/// Fewer lost objects are no large shrink, unless none is left.
const FEWEST_LOST: usize = 10;

/// Number of objects now, and a while ago.
#[derive(Debug, Default)]
pub(super) struct Population {
    count: usize,
    /// At the beginning of the window.
    before: usize,
    window: Option<Instant>,
}

/// More than half of the objects are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shrink {
    pub(super) before: usize,
    pub(super) after: usize,
}

impl Population {
    /// A complete list has so many objects.
    pub(super) fn listed(&mut self, count: usize, now: Instant) -> Option<Shrink> {
        self.before = self.before.max(self.count);
        self.count = count;
        let shrink = self.shrink(now);
        self.restart(now);
        shrink
    }

    /// A watch brought an object that was not there.
    pub(super) fn added(&mut self, now: Instant) {
        self.roll(now);
        self.count = self.count.saturating_add(1);
        self.before = self.before.max(self.count);
    }

    /// A watch says that an object is gone.
    pub(super) fn gone(&mut self, now: Instant) -> Option<Shrink> {
        self.roll(now);
        self.count = self.count.saturating_sub(1);
        self.shrink(now)
    }

    fn roll(&mut self, now: Instant) {
        let is_over = |since| now.saturating_duration_since(since) >= WINDOW;
        if self.window.is_none_or(is_over) {
            self.restart(now);
        }
    }

    fn restart(&mut self, now: Instant) {
        self.before = self.count;
        self.window = Some(now);
    }

    fn shrink(&mut self, now: Instant) -> Option<Shrink> {
        let (before, after) = (self.before, self.count);
        let lost = before.saturating_sub(after);
        let is_large = lost >= FEWEST_LOST && after < lost || after == 0 && lost > 1;
        is_large.then(|| {
            self.restart(now);
            Shrink { before, after }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shrink: Option<Shrink>, expected: Option<(usize, usize)>) {
        assert_eq!(shrink.map(|shrink| (shrink.before, shrink.after)), expected);
    }

    #[test]
    fn a_list_of_less_than_half_is_a_large_shrink() {
        let now = Instant::now();
        for (before, after, is_large) in [
            (0, 0, false),
            (1, 0, false),
            (2, 0, true),
            (12, 4, false),
            (20, 10, false),
            (20, 9, true),
            (5000, 0, true),
            (5000, 6000, false),
        ] {
            let mut population = Population::default();
            check(population.listed(before, now), None);
            let expected = is_large.then_some((before, after));
            check(population.listed(after, now), expected);
            check(population.listed(after, now), None);
        }
    }

    #[test]
    fn objects_that_go_one_by_one_are_a_shrink_if_it_is_fast() {
        let mut now = Instant::now();
        let mut population = Population::default();
        population.listed(100, now);
        let shrinks = (0..100).filter_map(|_| population.gone(now));
        let shrinks: Vec<_> = shrinks
            .map(|shrink| (shrink.before, shrink.after))
            .collect();
        assert_eq!(shrinks, [(100, 49), (49, 24), (24, 11), (11, 1)]);
        for _ in 0..100 {
            population.added(now);
        }
        for _ in 0..60 {
            now += WINDOW / 30;
            check(population.gone(now), None);
        }
    }
}
