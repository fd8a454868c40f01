//! Payloads that the daemon would restore, given the rules in the kernel.
//!
//! `diff` reports their size and `render --since` prints them. They are rendered: full payloads
//! depend on the live rules, partial ones on the applied state.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::snapshot;
use crate::model::{ServiceName, Services};
use crate::render::{
    self, AppliedState, FullPayload, LiveChains, Options, PartialPayload, PartialRestore,
    PayloadStats, RerenderReason, is_service_chain,
};
use crate::rules::{Payload, RuleSet, Table};
use crate::tracker::Tracker;

/// Objects and render options of one family.
#[derive(Clone, Copy)]
pub(super) struct RenderSide<'a> {
    pub(super) tracker: &'a Tracker,
    pub(super) options: &'a Options,
}

/// Payload for a change of objects.
pub(super) enum NextRestore {
    /// Full payload, made by [`RenderSide::full`].
    Full(RerenderReason),
    /// Number of changed Services, and their partial payload.
    Partial(usize, PartialPayload),
}

impl RenderSide<'_> {
    /// Returns the rules in a kernel without other rules, and the applied state after their
    /// restore.
    pub(super) fn rules(self) -> anyhow::Result<(RuleSet, AppliedState)> {
        let (text, applied) = snapshot::full(self.options, self.tracker);
        let mut rules = RuleSet::default();
        rules.apply(&String::from_utf8_lossy(&text))?;
        Ok((rules, applied))
    }

    /// Renders the full payload for a kernel with the `live` rules, piece by piece.
    pub(super) fn full(
        self,
        live: &RuleSet,
        mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<PayloadStats> {
        let live = read_live(live);
        let mut payload = FullPayload::new(self.tracker, self.options, &live);
        let mut piece = Vec::new();
        while payload.write_next(&mut piece) {
            take(&piece)?;
            piece.clear();
        }
        Ok(payload.finish().1)
    }

    /// Renders the payload for a change from `before`, whose applied state is `ledger`, to this
    /// side between two syncs.
    pub(super) fn after(
        self,
        before: Self,
        mut ledger: AppliedState,
        partial_restore: PartialRestore,
    ) -> NextRestore {
        if let Some(why) = RerenderReason::between(before.options, self.options) {
            return NextRestore::Full(why);
        }
        let (old, new) = (before.tracker, self.tracker);
        let all = old.all().chain(new.all());
        let changed = all.filter(|(name, _)| old.get(name) != new.get(name));
        let names: BTreeSet<&ServiceName> = changed.map(|(name, _)| name).collect();
        let dirty = names.iter().copied();
        let partial =
            render::partial_payload(&mut ledger, new, dirty, self.options, partial_restore);
        NextRestore::Partial(names.len(), partial)
    }
}

/// Reads the part of the rules that a full payload depends on: the chains, and the jumps from
/// other chains to ours.
fn read_live(rules: &RuleSet) -> LiveChains {
    let mut live = LiveChains::default();
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
        live.read_table(table, &text);
    }
    live
}
