//! What the daemon would restore, on a kernel of which the rules are known.
//!
//! Apart because `diff` tells it and `render --since` prints it. It is found by rendering: full
//! payloads depend on what the kernel holds, partial ones on what was restored before.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::snapshot;
use crate::model::{ServiceName, Services};
use crate::render::{
    self, AppliedState, Full, Live, Options, Partial, PartialRestore, PayloadStats, Rewrite,
    Setting, is_service_chain,
};
use crate::rules::{Payload, RuleSet, Table};
use crate::tracker::Tracker;

/// Objects, and what shapes their rules, of one family.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) tracker: &'a Tracker,
    pub(super) options: &'a Options,
}

/// What the daemon restores when objects change.
pub(super) enum Next {
    /// Everything: see [`Side::full`].
    Full(Rewrite),
    /// What so many changed Services ask for.
    Partial(usize, Partial),
}

impl<'a> Side<'a> {
    fn setting(self) -> Setting<'a> {
        snapshot::setting(self.tracker, self.options)
    }

    /// The rules of a kernel that has no other, and the books of whoever restored them.
    pub(super) fn rules(self) -> anyhow::Result<(RuleSet, AppliedState)> {
        let (text, applied) = snapshot::full(self.setting(), self.tracker);
        let mut rules = RuleSet::default();
        rules.apply(&String::from_utf8_lossy(&text))?;
        Ok((rules, applied))
    }

    /// What is restored when all is written to a kernel with these rules, piece by piece.
    pub(super) fn full(
        self,
        held: &RuleSet,
        mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<PayloadStats> {
        let live = live(held);
        let mut payload = Full::new(self.tracker, self.setting(), &live);
        let mut piece = Vec::new();
        while payload.write_next(&mut piece) {
            take(&piece)?;
            piece.clear();
        }
        Ok(payload.finish().1)
    }

    /// What is restored when `before`, of which the applied state is, becomes this between two
    /// syncs.
    pub(super) fn after(
        self,
        before: Self,
        mut applied: AppliedState,
        shape: PartialRestore,
    ) -> Next {
        if let Some(why) = Rewrite::needed(before.setting(), self.setting()) {
            return Next::Full(why);
        }
        let (old, new) = (before.tracker, self.tracker);
        let all = old.all().chain(new.all());
        let changed = all.filter(|(name, _)| old.get(name) != new.get(name));
        let names: BTreeSet<&ServiceName> = changed.map(|(name, _)| name).collect();
        let dirty = names.iter().copied();
        let partial = render::partial(&mut applied, new, dirty, self.setting(), shape);
        Next::Partial(names.len(), partial)
    }
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
