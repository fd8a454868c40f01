//! What the daemon would restore, in numbers.
//!
//! Apart from the [restores](super::super::restore) themselves because `diff` only tells how much
//! one is, and why.

use super::super::restore::{Next, Side};
use crate::inspect::diff::{PlannedRestore, RestoreScope};
use crate::render::{AppliedState, PartialRestore};
use crate::rules::RuleSet;
use crate::sync::FullReason;

/// What the daemon restores when it starts on a machine with these rules.
pub(super) fn first(side: Side<'_>, live: &RuleSet) -> anyhow::Result<PlannedRestore> {
    full(side, live, FullReason::First.as_str())
}

/// What the daemon restores when objects change.
pub(super) fn next(
    (before, after): (Side<'_>, Side<'_>),
    (live, applied): (&RuleSet, AppliedState),
) -> anyhow::Result<PlannedRestore> {
    let (services, partial) = match after.after(before, applied, PartialRestore::ChangedChains) {
        Next::Full(why) => return full(after, live, why.as_str()),
        Next::Partial(services, partial) => (services, partial),
    };
    Ok(PlannedRestore {
        scope: RestoreScope::Partial,
        reason: match services {
            0 => "node port addresses changed",
            _ => "services changed",
        },
        services: Some(services),
        chains: partial.stats.chains,
        lines: count_lines(&partial.text),
        bytes: partial.stats.bytes,
        payload: Some(String::from_utf8_lossy(&partial.text).into_owned()),
    })
}

fn full(side: Side<'_>, live: &RuleSet, reason: &'static str) -> anyhow::Result<PlannedRestore> {
    let mut lines = 0;
    let stats = side.full(live, |piece| {
        lines += count_lines(piece);
        Ok(())
    })?;
    Ok(PlannedRestore {
        scope: RestoreScope::Full,
        reason,
        services: None,
        chains: stats.chains,
        lines,
        bytes: stats.bytes,
        payload: None,
    })
}

fn count_lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}
