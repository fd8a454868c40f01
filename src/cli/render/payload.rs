//! Payloads without a kernel: everything, or what leads from one state of the cluster to another.

use std::collections::BTreeSet;

use super::super::snapshot::{self, setting};
use crate::model::{ServiceName, Services};
use crate::render::{self, Full, Live, Options, PartialRestore};
use crate::rules::Payload;
use crate::tracker::Tracker;

/// Gives the full payload piece by piece.
pub(super) fn pieces(
    tracker: &Tracker,
    options: &Options,
    mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let live = Live::default();
    let mut full = Full::new(tracker, setting(tracker, options), &live);
    let mut piece = Vec::new();
    while full.write_next(&mut piece) {
        take(&piece)?;
        piece.clear();
    }
    Ok(())
}

/// The full payload.
pub(super) fn full(tracker: &Tracker, options: &Options) -> Vec<u8> {
    snapshot::full(setting(tracker, options), tracker).0
}

/// What the daemon would restore if the cluster went from `before` to `wanted` between two syncs.
/// A new zone asks for a full restore there.
pub(super) fn partial(
    before: &Tracker,
    wanted: &Tracker,
    options: &Options,
    shape: PartialRestore,
) -> Vec<u8> {
    let wanted_setting = setting(wanted, options);
    if setting(before, options).zone != wanted_setting.zone {
        return full(wanted, options);
    }
    let (_, mut ledger) = snapshot::full(setting(before, options), before);
    let names: BTreeSet<&ServiceName> = before
        .all()
        .chain(wanted.all())
        .filter(|(name, _)| before.get(name) != wanted.get(name))
        .map(|(name, _)| name)
        .collect();
    let names = names.iter().copied();
    render::partial(&mut ledger, wanted, names, wanted_setting, shape).text
}
