//! The trait [`Iptables`], and the results of its functions.
//!
//! A trait, so that callers can be tested without a kernel.

use std::collections::BTreeSet;
use std::time::Duration;

use super::outcome::{CounterError, RestoreError, Restored, RunError};
use crate::rules::{ChainSet, Payload, Table};

/// The rules of one IP family in the kernel, and the counters that they name.
///
/// Commands of one family never overlap: the owner awaits one before it starts the next.
#[allow(
    async_fn_in_trait,
    reason = "callers live on one single-threaded runtime, so no future has to be Send"
)]
pub trait Iptables {
    /// Applies a payload without flushing chains that it does not name. Each table is applied
    /// atomically; if the second of two tables fails, the first may be in the kernel.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`]: its variants are the actions left to the caller.
    async fn restore(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError>;

    /// Applies a payload as [`restore`](Iptables::restore) does, with a shorter deadline.
    ///
    /// # Errors
    ///
    /// As [`Iptables::restore`].
    async fn restore_within(
        &self,
        payload: &mut dyn Payload,
        deadline: Duration,
    ) -> Result<Restored, RestoreError> {
        // Test doubles run no program, so there is nothing to time out.
        let _ = deadline;
        self.restore(payload).await
    }

    /// Reads a table as `iptables-save` prints it, without counters and comments, line by line: the
    /// rules of a large cluster are tens of megabytes.
    ///
    /// # Errors
    ///
    /// An error that is not [transient](RunError::is_transient) can last as long as third-party
    /// rules exist. Lines that were read before an error are not the whole table.
    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError>;

    /// Returns the text of [`save`](Iptables::save) in one piece.
    async fn saved(&self, table: Table) -> Result<String, RunError> {
        let mut text = String::new();
        self.save(table, &mut |line| text.extend([line, "\n"]))
            .await?;
        Ok(text)
    }

    /// Lists the rules of some chains of `table`, in the order given.
    ///
    /// # Errors
    ///
    /// Nothing is known about the chains, for example because another program holds the lock.
    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError>;

    /// Reports whether `chain` of `table` has this rule, spelled as after `-A CHAIN`. This often
    /// works for tables that cannot be printed.
    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError>;

    /// Creates the packet counter `name` unless it exists. Then rules can name it with `-m nfacct`,
    /// until another program deletes it; the kernel keeps counters that a rule names.
    async fn make_counter(&self, name: &str) -> Result<(), CounterError>;

    /// Waits until another program changes the tables; never returns if that is not watched. Cancel
    /// safe: a change is kept until it is returned.
    async fn changed(&self) -> ForeignChange {
        std::future::pending().await
    }

    /// Returns a number that stays the same while no program changes any rule; `None` if unknown.
    /// The number may change although no rule did. With detection [by
    /// size](ChangeDetection::BySize), a program that does not share the xtables lock changes rules
    /// without changing the number.
    fn generation(&self) -> Option<u32> {
        None
    }

    /// Returns the kind of changes that [`changed`](Iptables::changed) reports.
    fn change_detection(&self) -> ChangeDetection {
        ChangeDetection::Off
    }
}

/// Detection of changes by other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeDetection {
    /// Changes are not detected.
    Off,
    /// Changes are detected by the sizes of tables. A change that keeps the size is missed, as is
    /// one between the end of a restore of ours and the next reading of sizes.
    BySize,
    /// The kernel reports each change.
    ByEvents,
}

/// Rules of some chains, as `-S` prints them: `-N` or `-P` for the chain, then `-A` for each rule.
#[derive(Debug)]
pub enum ListedChains {
    /// All rules of all chains.
    Whole(String),
    /// One of the chains does not exist.
    Missing,
    /// The program exited at a rule that it cannot print.
    Truncated {
        /// Lines before that rule.
        printed: String,
        /// Chain of that rule. Chains after it were not printed.
        chain: String,
        /// Error of the program.
        cause: RunError,
    },
}

/// Maximum chains of one table that are listed by name. A flush of a table with thousands of
/// Services touches tens of thousands: from some number on, reading the table once is cheaper.
const MOST_CHAINS: usize = 1000;

/// Maximum programs that are listed by name.
const MOST_PROGRAMS: usize = 8;

/// Changes by other programs since the last report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignChange {
    /// Chains that were added, deleted, or changed. All of a table if it is not known which.
    pub chains: ChainSet,
    /// Names of the programs, where the kernel reports them.
    pub programs: BTreeSet<String>,
    /// Source of the report.
    pub source: ChangeSource,
}

/// Source of the report of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeSource {
    /// The kernel reported every transaction.
    #[default]
    Events,
    /// Reports of the kernel were lost.
    LostEvents,
    /// The number or the size of a table's rules has changed.
    TableSizes,
}

impl ForeignChange {
    /// Returns a change of unknown extent in some tables.
    pub fn unknown(source: ChangeSource, tables: impl IntoIterator<Item = Table>) -> Self {
        Self {
            chains: ChainSet::of_tables(tables),
            programs: BTreeSet::new(),
            source,
        }
    }

    /// Reports whether no table has changed.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Reports whether all changed chains are known.
    pub fn is_exact(&self) -> bool {
        self.chains.tables().next().is_none()
    }

    /// Adds a changed chain.
    pub fn touch(&mut self, table: Table, chain: &str) {
        self.chains.add(table, chain);
        if self.chains.count_named(table) > MOST_CHAINS {
            self.touch_table(table);
        }
    }

    /// Adds a table that was added or deleted as a whole.
    pub fn touch_table(&mut self, table: Table) {
        self.chains.add_table(table);
    }

    /// Adds the name of a program.
    pub fn by(&mut self, program: &str) {
        if !program.is_empty() && self.programs.len() < MOST_PROGRAMS {
            self.programs.insert(program.to_owned());
        }
    }

    /// Adds everything in another change.
    pub fn merge(&mut self, other: &Self) {
        for table in other.chains.tables() {
            self.touch_table(table);
        }
        for (table, chain) in other.chains.named() {
            self.touch(table, chain);
        }
        for program in &other.programs {
            self.by(program);
        }
        self.source = self.source.max(other.source);
    }
}

impl ChangeSource {
    /// Returns the spelling in logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Events => "event",
            Self::LostEvents => "lost_events",
            Self::TableSizes => "table_size",
        }
    }
}

#[cfg(test)]
#[path = "tests/interface.rs"]
mod tests;
