//! Payloads without a kernel: everything, or what leads from one state of the cluster to another.

use super::super::restore::{Next, Side};
use crate::render::PartialRestore;
use crate::rules::RuleSet;

/// Gives the full payload for a kernel without rules, piece by piece.
pub(super) fn pieces(
    side: Side<'_>,
    take: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    side.full(&RuleSet::default(), take).map(|_| ())
}

/// The full payload for a kernel with these rules.
pub(super) fn full(side: Side<'_>, held: &RuleSet) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    side.full(held, |piece| {
        text.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(text)
}

/// What the daemon would restore if the cluster went from `before` to `wanted` between two syncs:
/// everything, if it has to.
pub(super) fn next(
    before: Side<'_>,
    wanted: Side<'_>,
    shape: PartialRestore,
) -> anyhow::Result<Vec<u8>> {
    let (held, applied) = before.rules()?;
    match wanted.after(before, applied, shape) {
        Next::Full(why) => {
            tracing::warn!("all rules have to be written anew: {}", why.as_str());
            full(wanted, &held)
        }
        Next::Partial(_, partial) => Ok(partial.text),
    }
}
