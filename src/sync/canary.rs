//! Looks whether our chains are still in the kernel.
//!
//! Apart because it is about others: firewalls that reload, people who flush.
//!
//! Differs from upstream: there only the mangle table is looked at, so that a flush of nat alone
//! goes unseen for up to an hour. Here each table is.
//!
//! Upstream: pkg/util/iptables/iptables.go, `Monitor` (v1.36)

use std::time::{Duration, Instant};

use crate::host::{Iptables, RunError};
use crate::render::CANARY;
use crate::rules::Table;

/// The tables with a canary, the cheapest to look at first.
const TABLES: [Table; 3] = [Table::Mangle, Table::Filter, Table::Nat];

/// When to look, and for what.
#[derive(Debug)]
pub(super) struct Canary {
    every: Duration,
    next: Instant,
    is_planted: bool,
}

/// What was seen.
#[derive(Debug)]
pub(super) enum Sight {
    /// All are there, or there is nothing to look for yet.
    Alive,
    /// It cannot be told for this table; next time, perhaps.
    Unclear(Table, RunError),
    /// This table has lost its canary.
    Gone(Table),
}

impl Canary {
    /// Looks at that interval, once there is a canary.
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self {
            every,
            next: now + every,
            is_planted: false,
        }
    }

    /// When to look next.
    pub(super) const fn next_look(&self) -> Instant {
        self.next
    }

    /// A sync has succeeded: the canaries are there.
    pub(super) fn planted(&mut self) {
        self.is_planted = true;
    }

    /// Looks now.
    pub(super) async fn look(&mut self, iptables: &impl Iptables, now: Instant) -> Sight {
        self.next = now + self.every;
        if !self.is_planted {
            return Sight::Alive;
        }
        for table in TABLES {
            match iptables.has_chain(table, CANARY).await {
                Ok(true) => {}
                Ok(false) => return Sight::Gone(table),
                Err(error) => return Sight::Unclear(table, error),
            }
        }
        Sight::Alive
    }
}
