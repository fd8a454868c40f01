//! Forks of paths at undecided rules, and the shares that depend on them.
//!
//! At an undecided rule, all packets of a path are taken not to match, and a hypothetical path
//! follows them as if they did. Every path carries how much of the fork's packets it gains and
//! loses if the rule matches. Where both paths meet, the two cancel out; if all verdicts lose what
//! they gain, the rule has no effect on the answer.
//!
//! # Invariants
//!
//! - A fork is seen from its own packets: gains and losses are parts of these, not of all packets.
//! - If every fork is without effect, no combination of undecided rules has one: forks on
//!   hypothetical paths count as well.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{Step, Verdict};
use crate::rules::grammar::Share;

/// Paths that a step forked off, and the rules of all forks at undecided rules.
#[derive(Debug)]
pub(super) struct Forks<'a, Path> {
    pub(super) paths: Vec<Path>,
    undecided: Vec<Step<'a>>,
    /// Evaluated rules of all paths.
    steps: usize,
}

impl<Path> Default for Forks<'_, Path> {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            undecided: Vec::new(),
            steps: 0,
        }
    }
}

impl<'a, Path> Forks<'a, Path> {
    /// Returns the number of a new fork at that rule.
    pub(super) fn add_undecided(&mut self, step: Step<'a>) -> usize {
        self.undecided.push(step);
        self.undecided.len() - 1
    }

    /// Counts the evaluation of a rule. Returns `false` if there were too many.
    pub(super) const fn count_step(&mut self) -> bool {
        self.steps += 1;
        self.steps <= MAX_STEPS
    }

    /// Reports whether there are too many forks to follow more of them.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.undecided.len() > MAX_FORKS
    }

    /// Returns the rules of forks, in order and each once.
    pub(super) fn rules_of(&self, forks: &BTreeSet<usize>) -> Vec<Step<'a>> {
        let mut rules: Vec<Step<'a>> = Vec::new();
        for step in forks.iter().filter_map(|fork| self.undecided.get(*fork)) {
            if !rules
                .iter()
                .any(|known| std::ptr::eq(known.rule, step.rule))
            {
                rules.push(*step);
            }
        }
        rules
    }
}

/// Maximum evaluated rules in a trace. Chains that jump to others twice each have steps without
/// end; a hundred thousand rules in `KUBE-SERVICES` take a hundred thousand for each path.
const MAX_STEPS: usize = 1 << 22;

/// Maximum number of forks in a trace. Thousands of endpoints, each before dozens of undecided
/// rules of other programs, stay below; without a limit, rules that fork in every hook multiply.
const MAX_FORKS: usize = 1 << 18;

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
    pub(super) fn add(&mut self, other: Self) {
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
