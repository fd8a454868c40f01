//! Reads the rules in the kernel before a full restore or an adoption.
//!
//! Tables hold third-party rules too, and the programs cannot print some of them: one such rule
//! must neither stop a sync nor make a full table look empty.

use crate::host::{Iptables, ListedChains, RunError};
use crate::render::{FIREWALL, JUMPS, LiveChains, LiveRules};
use crate::rules::Table;

/// Extent of the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    /// Chains and jumps, for a full restore.
    Outlines,
    /// All of our rules, for an adoption.
    AllOfOurs,
}

/// Consequence of a program that gives no answer, as while another one holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The sync fails and is tried again: most causes pass.
    Fail,
    /// The table counts as unreadable, so that its rules are written all the same.
    Unreadable,
}

impl NoAnswer {
    /// Failures in a row after which a cause counts as lasting: the retries have taken seven
    /// seconds by then, longer than other programs hold the lock.
    const MOST_FAILURES: u32 = 3;

    /// Consequence after so many failures in a row.
    pub(super) const fn after(failures: u32) -> Self {
        if failures < Self::MOST_FAILURES {
            Self::Fail
        } else {
            Self::Unreadable
        }
    }
}

/// A table that could not be read, and why.
pub(super) type Unread = (Table, RunError);

/// Rules in the kernel.
#[derive(Debug, Default)]
pub(super) struct Inspection {
    /// Chains and jumps.
    pub(super) live: LiveChains,
    /// All of our rules, if requested and if all tables could be read.
    pub(super) found: Option<LiveRules>,
    /// Tables that could not be read.
    pub(super) unread: Vec<Unread>,
}

/// Reads the tables; of those that cannot be read, only the rules that must not be written twice.
/// Stale chains stay in these.
///
/// # Errors
///
/// A program gave no answer, and may give one later.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Failed to execute iptables-save:
/// stale chains will not be deleted" (v1.36)
pub(super) async fn inspect(
    iptables: &impl Iptables,
    interest: Interest,
    no_answer: NoAnswer,
) -> Result<Inspection, RunError> {
    let mut inspection = Inspection::default();
    let mut found = (interest == Interest::AllOfOurs).then(LiveRules::default);
    for table in [Table::Filter, Table::Nat] {
        let mut live = inspection.live.clone();
        let mut read = |line: &str| {
            live.read_line(table, line);
            if let Some(found) = &mut found {
                found.read(table, line);
            }
        };
        match iptables.save(table, &mut read).await {
            Ok(()) => {
                live.note_read(table);
                inspection.live = live;
            }
            Err(error) if error.is_transient() && no_answer == NoAnswer::Fail => return Err(error),
            Err(error) => {
                found = None;
                ask(iptables, table, &mut inspection.live).await?;
                inspection.unread.push((table, error));
            }
        }
    }
    inspection.found = found;
    Ok(inspection)
}

/// Queries each jump, and the chain that kubelet may own.
async fn ask(
    iptables: &impl Iptables,
    table: Table,
    live: &mut LiveChains,
) -> Result<(), RunError> {
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        if iptables.has(table, jump.from, jump.rule).await? {
            live.note_jump(jump);
        }
    }
    if table == Table::Filter {
        let listed = iptables.list(table, &[FIREWALL]).await?;
        if !matches!(listed, ListedChains::Missing) {
            live.note_firewall();
        }
    }
    Ok(())
}
