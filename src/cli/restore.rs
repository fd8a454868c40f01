//! What the daemon would restore.
//!
//! Apart because it is found by rendering once more: full payloads depend on what the kernel holds,
//! partial ones on what was restored before.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::snapshot;
use super::desired::Desired;
use crate::diff::{Restore, Scope};
use crate::model::{ServiceName, Services};
use crate::net::IpFamily;
use crate::render::{self, Full, Ledger, Live, PartialRestore, is_service_chain};
use crate::rules::{Payload, RuleSet, Table};

/// The desired rules of a kernel that has no other, and the books of whoever restored them.
pub(super) fn rules(desired: &Desired, family: IpFamily) -> anyhow::Result<(RuleSet, Ledger)> {
    let tracker = desired.trackers.get(family);
    let (text, ledger) = snapshot::full(desired.setting(family), tracker);
    let mut rules = RuleSet::default();
    rules.apply(&String::from_utf8_lossy(&text))?;
    Ok((rules, ledger))
}

/// What the daemon restores when it starts on a machine with these rules.
pub(super) fn full(desired: &Desired, family: IpFamily, held: &RuleSet) -> Restore {
    let live = live(held);
    let tracker = desired.trackers.get(family);
    let mut payload = Full::new(tracker, desired.setting(family), &live);
    let mut piece = Vec::new();
    let mut lines = 0;
    while payload.write_next(&mut piece) {
        lines += count_lines(&piece);
        piece.clear();
    }
    let (_, stats) = payload.finish();
    Restore {
        scope: Scope::Full,
        chains: stats.chains,
        lines,
        bytes: stats.bytes,
        payload: None,
    }
}

/// What the daemon restores when objects change. Flags and the Node make a full restore necessary
/// if they shape other rules.
pub(super) fn partial(
    (before, after): (&Desired, &Desired),
    family: IpFamily,
    (held, mut ledger): (&RuleSet, Ledger),
) -> Restore {
    if before.options.get(family) != after.options.get(family) {
        return full(after, family, held);
    }
    let (old, new) = (before.trackers.get(family), after.trackers.get(family));
    let names: BTreeSet<&ServiceName> = old.all().chain(new.all()).map(|(name, _)| name).collect();
    let setting = after.setting(family);
    let shape = PartialRestore::ChangedChains;
    let partial = render::partial(&mut ledger, new, names.iter().copied(), setting, shape);
    Restore {
        scope: Scope::Partial,
        chains: partial.stats.chains,
        lines: count_lines(&partial.text),
        bytes: partial.stats.bytes,
        payload: Some(String::from_utf8_lossy(&partial.text).into_owned()),
    }
}

fn count_lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

/// The part of the rules that a full restore looks at: which chains there are, and what jumps to
/// ours from elsewhere.
fn live(rules: &RuleSet) -> Live {
    let mut live = Live::default();
    for table in Table::ALL {
        let mut text = String::new();
        for (name, chain) in rules.chains(table) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, ":{name}");
            if table == Table::Nat && is_service_chain(name) {
                continue;
            }
            for rule in chain
                .rules
                .iter()
                .filter(|rule| rule.target_chain().is_some())
            {
                let _ = writeln!(text, "-A {name} {rule}");
            }
        }
        live.read(table, &text);
    }
    live
}
