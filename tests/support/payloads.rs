//! Payloads of a cluster, without a syncer.

use deltaproxy::testing::render::{
    AppliedState, FullPayload, LiveChains, Options, PartialRestore, PayloadStats, partial_payload,
};
use deltaproxy::testing::rules::{Payload, RuleSet, Table};
use deltaproxy::testing::tracker::Tracker;

/// Returns the full payload for a kernel with these chains, what the kernel then has, and the size
/// of the payload.
pub fn full(
    tracker: &Tracker,
    options: &Options,
    live: &LiveChains,
) -> (String, AppliedState, PayloadStats) {
    let mut payload = FullPayload::new(tracker, options, live);
    let mut bytes = Vec::new();
    while payload.write_next(&mut bytes) {}
    let (applied, stats) = payload.finish();
    assert_eq!(stats.bytes, bytes.len() as u64);
    (String::from_utf8(bytes).unwrap(), applied, stats)
}

/// Returns the partial payload of all that is dirty, and its size. The kernel then has it.
pub fn partial(
    tracker: &mut Tracker,
    options: &Options,
    applied: &mut AppliedState,
    shape: PartialRestore,
) -> (String, PayloadStats) {
    let dirty: Vec<_> = tracker.dirty().cloned().collect();
    let payload = partial_payload(applied, tracker, dirty.iter(), options, shape);
    applied.written(payload.rendered);
    tracker.mark_applied();
    (String::from_utf8(payload.text).unwrap(), payload.stats)
}

/// Returns what a restore reads of a kernel with these rules.
pub fn live(rules: &RuleSet) -> LiveChains {
    let mut live = LiveChains::default();
    let save = rules.to_save_text();
    for section in save.split_inclusive("COMMIT\n") {
        let heading = section.lines().next().unwrap();
        let table = Table::from_name(heading.strip_prefix('*').unwrap());
        live.read_table(table.unwrap(), section);
    }
    live
}
