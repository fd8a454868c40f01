//! Forks of paths at undecided rules, and the shares that depend on them.
//!
//! At an undecided rule a path forks into two:
//!
//! - the *skipping* path has all packets, as if the rule did not match them;
//! - the *hypothetical* path has none (its share is zero), and shows where they would go if the
//!   rule matched them.
//!
//! Both record a shift under the number of the fork. If the rule matches, the hypothetical path
//! gains all packets of the fork, and the skipping path loses them. Random rules split a shift as
//! they split the packets. Where two paths meet, their shifts are added; a gain and a loss of the
//! same size cancel out. At the end, the shifts of all paths with one verdict are added. If the
//! rest of a fork is zero for every verdict, its rule has no effect on the answer.
//!
//! Example: `-m limit -j DROP`, then `-j DROP`. The verdict `Dropped` gains by the hypothetical
//! path what it loses by the skipping one, so that the answer is clear.
//!
//! # Invariants
//!
//! - A shift is a part of the packets that reach the rule of its fork, not of all packets.
//! - If every fork is without effect, no combination of undecided rules has one: forks on
//!   hypothetical paths count as well.
//! - If there are too many paths, hypothetical ones are not followed any more. Rules whose effect
//!   is not known then are listed for every outcome.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{Step, Verdict};
use crate::rules::grammar::{Rule, Share};

/// Paths that a step forked off, and the rules of all forks at undecided rules.
#[derive(Debug)]
pub(super) struct Forks<'a, Path> {
    pub(super) paths: Vec<Path>,
    undecided: Vec<Step<'a>>,
    /// First fork of each rule of which a hypothetical path is not followed to its end.
    unfollowed: BTreeMap<*const Rule, usize>,
    /// Number of forks on paths that are hypothetical themselves.
    nested: usize,
    /// Evaluated rules of all paths.
    steps: usize,
    /// Evaluated rules of hypothetical paths.
    hypothetical_steps: usize,
    /// Shifts that random rules split.
    split_shifts: usize,
    is_exhausted: bool,
}

impl<Path> Default for Forks<'_, Path> {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            undecided: Vec::new(),
            unfollowed: BTreeMap::new(),
            nested: 0,
            steps: 0,
            hypothetical_steps: 0,
            split_shifts: 0,
            is_exhausted: false,
        }
    }
}

impl<'a, Path> Forks<'a, Path> {
    /// Returns the number of a new fork at that rule.
    pub(super) fn add_undecided(&mut self, step: Step<'a>) -> usize {
        self.undecided.push(step);
        self.undecided.len() - 1
    }

    /// Adds an undecided rule that is taken not to match, without a path on which it does. Each
    /// outcome may depend on it.
    pub(super) fn add_unfollowed(&mut self, step: Step<'a>) {
        let rule = std::ptr::from_ref(step.rule);
        if !self.unfollowed.contains_key(&rule) {
            let fork = self.add_undecided(step);
            self.unfollowed.insert(rule, fork);
        }
    }

    /// Counts a fork on a path that is hypothetical itself: an undecided rule behind another one.
    pub(super) const fn count_nested(&mut self) {
        self.nested += 1;
        if self.nested > MAX_NESTED_FORKS {
            self.exhaust();
        }
    }

    /// Counts the evaluation of a rule. Returns `false` if there were too many.
    pub(super) const fn count_step(&mut self, is_hypothetical: bool) -> bool {
        self.steps += 1;
        self.hypothetical_steps += is_hypothetical as usize;
        let is_followed = self.steps <= MAX_STEPS;
        if !is_followed || self.hypothetical_steps > MAX_HYPOTHETICAL_STEPS {
            self.exhaust();
        }
        is_followed
    }

    /// Counts shifts before a random rule splits them. If there are too many, they are dropped, and
    /// each outcome may depend on their rules.
    pub(super) fn count_shifts(&mut self, shifts: &mut ShareShifts) {
        self.split_shifts += shifts.0.len();
        if self.split_shifts > MAX_SPLIT_SHIFTS {
            self.exhaust();
            for (fork, _) in std::mem::take(&mut shifts.0) {
                if let Some(step) = self.undecided.get(fork) {
                    let rule = std::ptr::from_ref(step.rule);
                    self.unfollowed.entry(rule).or_insert(fork);
                }
            }
        }
    }

    /// Returns how many rules and shifts were evaluated.
    pub(super) const fn evaluated(&self) -> usize {
        self.steps + self.split_shifts
    }

    /// Ends the following of hypothetical paths: there are too many.
    pub(super) const fn exhaust(&mut self) {
        self.is_exhausted = true;
    }

    /// Reports whether there are too many forks to follow more of them.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.is_exhausted || self.undecided.len() > MAX_FORKS
    }

    /// Returns the rules of forks that have an effect, and of those that are not followed, in order
    /// and each once.
    pub(super) fn rules_of(&self, with_effect: Option<&BTreeSet<usize>>) -> Vec<Step<'a>> {
        let mut forks: BTreeSet<usize> = self.unfollowed.values().copied().collect();
        forks.extend(with_effect.into_iter().flatten());
        let steps = forks.iter().filter_map(|fork| self.undecided.get(*fork));
        let mut seen = BTreeSet::new();
        let first = steps.filter(|step| seen.insert(std::ptr::from_ref(step.rule)));
        first.copied().collect()
    }
}

/// Maximum evaluated rules in a trace. Chains that jump to others twice each have steps without
/// end; a hundred thousand rules in `KUBE-SERVICES` take a hundred thousand for each path.
const MAX_STEPS: usize = 1 << 22;

/// Maximum evaluated rules of hypothetical paths, which give way before those of real packets: for
/// ten thousand endpoints, fifty undecided rules that drop.
const MAX_HYPOTHETICAL_STEPS: usize = 1 << 19;

/// Maximum number of forks on hypothetical paths. Chains that jump to others under two undecided
/// rules each double them with every chain, and each costs an entry in the shifts of many paths.
const MAX_NESTED_FORKS: usize = 1 << 14;

/// Maximum number of forks in a trace. Thousands of endpoints, each before dozens of undecided
/// rules of other programs, stay below; without a limit, rules that fork in every hook multiply.
const MAX_FORKS: usize = 1 << 18;

/// Maximum number of shifts that random rules split in a trace: ten undecided rules before a
/// Service with six thousand endpoints.
const MAX_SPLIT_SHIFTS: usize = 1 << 16;

/// Parts of the packets of a fork that a path gains and loses if the undecided rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShareShift {
    gained: Share,
    lost: Share,
}

impl ShareShift {
    fn plus(self, other: Self) -> Self {
        Self {
            gained: self.gained.plus(other.gained),
            lost: self.lost.plus(other.lost),
        }
    }

    fn is_without_effect(&self) -> bool {
        self.gained == self.lost
    }
}

/// Shifts by the number of the fork; those without effect are absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ShareShifts(BTreeMap<usize, ShareShift>);

impl ShareShifts {
    /// Returns the shift of the path on which the rule of a fork matches.
    pub(super) fn gained(fork: usize) -> Self {
        let (gained, lost) = (Share::ALL, Share::NONE);
        Self([(fork, ShareShift { gained, lost })].into())
    }

    /// Returns the shift of the path on which the rule of a fork does not match.
    pub(super) fn lost(fork: usize) -> Self {
        let (gained, lost) = (Share::NONE, Share::ALL);
        Self([(fork, ShareShift { gained, lost })].into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the shifts of a path with the same future.
    pub(super) fn add(&mut self, mut other: Self) {
        if self.0.len() < other.0.len() {
            std::mem::swap(self, &mut other);
        }
        for (fork, shift) in other.0 {
            let sum = self.0.get(&fork).map_or(shift, |own| own.plus(shift));
            if sum.is_without_effect() {
                self.0.remove(&fork);
            } else {
                self.0.insert(fork, sum);
            }
        }
    }

    /// Keeps that share of all shifts, and returns the rest.
    pub(super) fn split(&mut self, share: Share) -> Self {
        let mut rest = self.clone();
        for (shift, rest) in self.0.values_mut().zip(rest.0.values_mut()) {
            (shift.gained, rest.gained) = shift.gained.split(share);
            (shift.lost, rest.lost) = shift.lost.split(share);
        }
        rest
    }
}

/// Returns the forks that have an effect on each verdict.
pub(super) fn effects<'v>(
    ended: impl Iterator<Item = (&'v ShareShifts, &'v Verdict)>,
) -> BTreeMap<Verdict, BTreeSet<usize>> {
    let mut totals: BTreeMap<&Verdict, ShareShifts> = BTreeMap::new();
    for (shifts, verdict) in ended {
        totals.entry(verdict).or_default().add(shifts.clone());
    }
    let forks = |total: ShareShifts| total.0.into_keys().collect();
    let effects = totals.into_iter();
    effects
        .map(|(verdict, total)| (verdict.clone(), forks(total)))
        .collect()
}
