//! Looks whether our rules are still in the kernel.
//!
//! Apart because it is about others: firewalls that reload, people who flush or edit.
//!
//! Upstream: pkg/util/iptables/iptables.go, `Monitor` (v1.36)
//!
//! Differs from upstream: one table that lost rules is enough for a restore at once, instead of a
//! wait of up to five seconds for all of them to be flushed. Whoever is not done yet is caught by
//! two looks soon after.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::host::{Iptables, RunError};
use crate::render::{Options, guarded_chains, is_intact};
use crate::rules::Table;

/// The tables to look at, the cheapest first.
const TABLES: [Table; 3] = [Table::Mangle, Table::Filter, Table::Nat];

/// Whatever the sync period: looking is three processes.
const SHORTEST: Duration = Duration::from_millis(100);

/// How long after a loss is looked again: a reload of a firewall goes from table to table, and
/// takes what was restored between two of them. A loss found then is restored and begins nothing
/// anew: somebody who goes on flushing gets three restores in each period, not one a second.
const SOON: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// When to look, and for what.
#[derive(Debug)]
pub(super) struct Canary {
    /// `None`: never.
    every: Option<Duration>,
    next: Option<Instant>,
    /// The looks soon after a loss that are still to come.
    soon: &'static [Duration],
    /// The tables that could not be read the last time.
    unclear: BTreeSet<Table>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Sight {
    /// Of these tables it cannot be told any more. Each is named once, until it can be read again.
    pub(super) unclear: Vec<(Table, RunError)>,
    /// One could not be read now, for another reason than somebody's rules in it.
    pub(super) is_blind: bool,
    /// This table has lost rules of ours, or somebody changed them.
    pub(super) gone: Option<Table>,
}

impl Canary {
    /// Looks at that interval, once there is something to look for.
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        let every = every.map(|every| every.max(SHORTEST));
        Self {
            every,
            next: every.map(|every| now + every),
            soon: &[],
            unclear: BTreeSet::new(),
        }
    }

    /// When to look next, if ever.
    pub(super) const fn next_look(&self) -> Option<Instant> {
        self.next
    }

    /// Looks now for the rules that were written with these options; `None`: no one knows what is
    /// there, and nothing is looked for.
    pub(super) async fn look(
        &mut self,
        iptables: &impl Iptables,
        written: Option<&Options>,
        now: Instant,
    ) -> Sight {
        let sight = match written {
            Some(options) => self.see(iptables, options).await,
            None => Sight::default(),
        };
        self.soon = match self.soon {
            [_this, rest @ ..] => rest,
            [] if sight.gone.is_some() => &SOON,
            [] => &[],
        };
        let soon = self.soon.first().copied();
        self.next = self
            .every
            .map(|every| now + soon.unwrap_or(every).min(every));
        sight
    }

    async fn see(&mut self, iptables: &impl Iptables, options: &Options) -> Sight {
        let mut sight = Sight::default();
        for table in TABLES {
            match iptables.list(table, &guarded_chains(table, options)).await {
                Ok(listing) => {
                    self.unclear.remove(&table);
                    if !listing.is_some_and(|listing| is_intact(table, &listing, options)) {
                        sight.gone = Some(table);
                        return sight;
                    }
                }
                Err(error) => {
                    sight.is_blind |= !matches!(error, RunError::Incompatible { .. });
                    if self.unclear.insert(table) {
                        sight.unclear.push((table, error));
                    }
                }
            }
        }
        sight
    }
}

#[cfg(test)]
#[path = "tests/canary.rs"]
mod tests;
