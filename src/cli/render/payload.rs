//! Payloads without a kernel: everything, or what leads from one state of the cluster to another.

use std::collections::BTreeSet;

use crate::model::{ServiceName, Services};
use crate::render::{self, Full, Live, Options, PartialRestore, Setting};
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
    let live = Live::default();
    let mut full = Full::new(tracker, setting(tracker, options), &live);
    let mut text = Vec::new();
    while full.write_next(&mut text) {}
    text
}

/// What the daemon would restore if the cluster went from `before` to `wanted` between two syncs.
/// A new zone asks for a full restore there.
pub(super) fn partial(
    before: &Tracker,
    wanted: &Tracker,
    options: &Options,
    shape: PartialRestore,
) -> Vec<u8> {
    if zone(before) != zone(wanted) {
        return full(wanted, options);
    }
    let live = Live::default();
    let mut first = Full::new(before, setting(before, options), &live);
    let mut ignored = Vec::new();
    while first.write_next(&mut ignored) {
        ignored.clear();
    }
    let (mut ledger, _) = first.finish();
    let names: BTreeSet<&ServiceName> = before
        .all()
        .chain(wanted.all())
        .filter(|(name, _)| before.get(name) != wanted.get(name))
        .map(|(name, _)| name)
        .collect();
    let setting = setting(wanted, options);
    render::partial(&mut ledger, wanted, names.iter().copied(), setting, shape).text
}

fn setting<'a>(tracker: &'a Tracker, options: &'a Options) -> Setting<'a> {
    Setting {
        options,
        zone: zone(tracker),
    }
}

fn zone(tracker: &Tracker) -> Option<&str> {
    tracker.node().and_then(|node| node.zone.as_deref())
}
