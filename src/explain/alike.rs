//! How far clients of the same fate meet the same rules.
//!
//! Apart because ways of equal fate are told once: then somebody's rules stand for those of all,
//! and it must be said where they differ.

use super::way::Way;
use crate::rules::Step;

/// How far clients of the same fate meet the same rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alike {
    /// They do, or there is only one.
    Wholly,
    /// They do but for chains that they only visit: no rule there is about them.
    ButForVisits,
    /// They come by other rules, by another hook for example.
    InFate,
}

impl Alike {
    /// Of two that end alike.
    pub(super) fn of(left: &Way<'_>, right: &Way<'_>) -> Self {
        match () {
            () if all(left) == all(right) => Self::Wholly,
            () if left.told() == right.told() => Self::ButForVisits,
            () => Self::InFate,
        }
    }
}

fn all<'a>(way: &Way<'a>) -> Vec<Step<'a>> {
    let steps = way.ends.iter().flat_map(|end| way.steps(end));
    steps.copied().collect()
}

/// Without the jumps to chains of which no rule matched; `then` comes after the last step.
pub(super) fn eventful<'s, 'a>(
    steps: &'s [Step<'a>],
    then: Option<&'s Step<'a>>,
) -> Vec<&'s Step<'a>> {
    let mut told: Vec<&Step<'a>> = Vec::new();
    let mut next = then;
    for step in steps.iter().rev() {
        let leads_on = |chain| next.is_some_and(|next: &Step<'_>| next.chain == chain);
        if step.rule.target_chain().is_none_or(leads_on) {
            told.push(step);
            next = Some(step);
        }
    }
    told.reverse();
    told
}
