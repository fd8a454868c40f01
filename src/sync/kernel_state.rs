//! Reads and checks the rules in the kernel, and determines how much of a failed payload they
//! hold.
//!
//! Tables hold third-party rules too, and the programs cannot print some of them: one such rule
//! must neither stop a sync nor make a full table look empty.

use crate::host::{Iptables, ListedChains, RestoreError, RunError};
use crate::render::{
    FIREWALL, GuardedChainState, JUMPS, Jump, LiveChains, LiveRules, Options, guarded_chains,
    matches_except_kubelet_rules,
};
use crate::rules::{Payload, Table};

/// Amount of rules to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadScope<'a> {
    /// Chains and jumps, for a full restore.
    Outlines,
    /// All kube-proxy rules in the filter and nat tables, for a verification.
    AllOfOurs,
    /// All kube-proxy rules, for an adoption with these options.
    Adoption(&'a Options),
}

/// Reaction to a program that gives no answer, for example while another one holds the xtables
/// lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnNoAnswer {
    /// The sync fails and is retried: most causes are temporary.
    Fail,
    /// The table counts as unreadable, and its rules are written nevertheless.
    Unreadable,
}

impl OnNoAnswer {
    /// Failures in a row after which a cause counts as permanent: the retries have taken seven
    /// seconds by then, longer than other programs hold the lock.
    const MOST_FAILURES: u32 = 3;

    /// Returns the reaction after this many failures in a row.
    pub(super) const fn after(failures: u32) -> Self {
        if failures < Self::MOST_FAILURES {
            Self::Fail
        } else {
            Self::Unreadable
        }
    }
}

/// Table that could not be read, with the cause.
pub(super) type Unread = (Table, RunError);

/// Rules in the kernel.
#[derive(Debug, Default)]
pub(super) struct Inspection {
    /// Chains and jumps.
    pub(super) live: LiveChains,
    /// All kube-proxy rules, if requested and if all tables could be read.
    pub(super) found: Option<LiveRules>,
    /// The mangle table has the rules that a restore with the options of the adoption writes.
    pub(super) is_mangle_complete: bool,
    /// Tables that could not be read.
    pub(super) unread: Vec<Unread>,
}

/// Reads the tables; of those that cannot be read, only the jumps, which must not be written
/// twice. Stale chains stay in such a table.
///
/// # Errors
///
/// A program gave no answer; a retry may succeed.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Failed to execute iptables-save:
/// stale chains will not be deleted" (v1.36)
pub(super) async fn inspect(
    iptables: &impl Iptables,
    scope: ReadScope<'_>,
    no_answer: OnNoAnswer,
) -> Result<Inspection, RunError> {
    let mut inspection = Inspection::default();
    let mut found = (scope != ReadScope::Outlines).then(LiveRules::default);
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
            Err(error) if error.is_transient() && no_answer == OnNoAnswer::Fail => {
                return Err(error);
            }
            Err(error) => {
                found = None;
                query_jumps(iptables, table, &mut inspection.live).await?;
                inspection.unread.push((table, error));
            }
        }
    }
    // A full restore and kubelet create KUBE-FIREWALL: without it there is nothing to adopt, and no
    // process is started for that.
    if let (ReadScope::Adoption(options), Some(_)) = (scope, &found)
        && inspection.live.has_firewall
    {
        let guarded = guarded_chains(Table::Mangle, options);
        inspection.is_mangle_complete = match iptables.list(Table::Mangle, &guarded).await {
            Ok(ListedChains::Whole(listing)) => {
                matches_except_kubelet_rules(Table::Mangle, &listing, options)
            }
            Err(error) if error.is_transient() && no_answer == OnNoAnswer::Fail => {
                return Err(error);
            }
            Ok(_) | Err(_) => false,
        };
    }
    inspection.found = found;
    Ok(inspection)
}

/// Queries each jump, and `KUBE-FIREWALL`, which kubelet may own.
async fn query_jumps(
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

/// Returns the part of a payload after this many tables.
pub(super) fn after_tables(text: &[u8], tables: usize) -> &[u8] {
    let (mut end, mut ended) = (0, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if ended == tables {
            break;
        }
        end += line.len();
        ended += usize::from(line == b"COMMIT\n");
    }
    text.get(end..).unwrap_or_default()
}

/// Reports whether a payload that failed has changed nothing in the kernel: each table is applied
/// whole or not at all, one after the other, and none ended before the rejected line. After a
/// program was killed this is unknown.
pub(super) fn is_untouched(error: &RestoreError, again: &mut dyn Payload) -> bool {
    match error {
        RestoreError::Rejected { line, .. } => !commits_before(*line, again),
        // The program reports no error once the last table is committed.
        RestoreError::Failed { status: 1.., .. } => !commits_before_last_line(again),
        error => error.committed_if_retriable() == Some(0),
    }
}

/// Reports whether more than one table is committed.
fn commits_before_last_line(payload: &mut dyn Payload) -> bool {
    let (mut text, mut commits) = (Vec::new(), 0);
    while commits < 2 && payload.write_next(&mut text) {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        commits += lines.filter(|line| *line == b"COMMIT\n").count();
        text.clear();
    }
    commits > 1
}

/// Reports whether a line before this one, counted from 1, ends a table.
fn commits_before(line: usize, payload: &mut dyn Payload) -> bool {
    let (mut text, mut before) = (Vec::new(), 1);
    while before < line && payload.write_next(&mut text) {
        for written in text.split_inclusive(|byte| *byte == b'\n') {
            if before < line && written == b"COMMIT\n" {
                return true;
            }
            before += 1;
        }
        text.clear();
    }
    false
}

/// Loss of rules that a full restore repairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TableLoss {
    /// A kube-proxy chain was deleted, so the program listed no jump.
    Deleted,
    /// The chains exist without the jumps to them, as after `iptables -F`.
    Flushed {
        /// Missing jumps from built-in chains.
        missing: Vec<&'static Jump>,
    },
}

/// Result of the check of one table.
#[derive(Debug)]
pub(super) enum TableCheck {
    /// Chains, or all jumps to them, are missing.
    Gone(TableLoss),
    /// The chains exist.
    Present {
        /// Fixed chains with third-party rules.
        edited: Vec<&'static str>,
        /// Fixed chains that lack some of their rules.
        incomplete: Vec<&'static str>,
        /// Missing jumps from built-in chains.
        missing: Vec<&'static Jump>,
        /// Error of the program for a rule in a built-in chain that it cannot print.
        unprintable: Option<RunError>,
    },
}

/// Lists the guarded chains, and queries each jump in a chain that cannot be printed.
///
/// # Errors
///
/// The program failed, for example because another one held the xtables lock.
pub(super) async fn check_table(
    iptables: &impl Iptables,
    table: Table,
    options: &Options,
) -> Result<TableCheck, RunError> {
    let Some(listing) = list(iptables, table, options).await? else {
        return Ok(TableCheck::Gone(TableLoss::Deleted));
    };
    let mut state = GuardedChainState::of(table, &listing.text, &listing.cut, options);
    if state.is_flushed {
        let missing = state.missing.into_iter().chain(state.unseen).collect();
        return Ok(TableCheck::Gone(TableLoss::Flushed { missing }));
    }
    for jump in state.unseen {
        match iptables.has(table, jump.from, jump.rule).await {
            // The jump counts as present: its chain has an unprintable rule.
            Ok(true) | Err(RunError::Unprintable { .. }) => {}
            Ok(false) => state.missing.push(jump),
            Err(error) => return Err(error),
        }
    }
    Ok(TableCheck::Present {
        edited: state.edited,
        incomplete: state.incomplete,
        missing: state.missing,
        unprintable: listing.unprintable,
    })
}

/// Printable lines of the guarded chains of one table.
#[derive(Debug, Default)]
struct Listing {
    text: String,
    /// Chains with unprintable rules.
    cut: Vec<String>,
    /// First error that concerns a built-in chain.
    unprintable: Option<RunError>,
}

/// Lists the guarded chains, and continues after each chain at which the program ends; `None` if
/// one of them does not exist.
async fn list(
    iptables: &impl Iptables,
    table: Table,
    options: &Options,
) -> Result<Option<Listing>, RunError> {
    let chains = guarded_chains(table, options);
    let mut listing = Listing::default();
    let mut rest = chains.as_slice();
    while !rest.is_empty() {
        match iptables.list(table, rest).await? {
            ListedChains::Missing => return Ok(None),
            ListedChains::Whole(text) => {
                listing.text += &text;
                break;
            }
            ListedChains::Truncated {
                printed,
                chain,
                cause,
            } => {
                listing.text += &printed;
                // A name that was not queried: the first chain counts as unprintable.
                let at = rest.iter().position(|asked| *asked == chain);
                let (cut, behind) = rest.split_at(at.map_or(1, |at| at + 1));
                rest = behind;
                let cut = cut.last().copied().unwrap_or_default();
                if table.built_in_chains().contains(&cut) {
                    listing.unprintable.get_or_insert(cause);
                }
                listing.cut.push(cut.to_owned());
            }
        }
    }
    Ok(Some(listing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Text;

    const TEXT: &[u8] = b"*filter\n-A X\nCOMMIT\n*nat\n-A COMMIT\nCOMMIT\n*mangle\nCOMMIT\n";

    #[test]
    fn text_after_the_committed_tables_is_kept() {
        let kept = [0, 1, 2, 3, 9].map(|tables| after_tables(TEXT, tables).len());
        let last = "*mangle\nCOMMIT\n".len();
        assert_eq!(kept, [TEXT.len(), TEXT.len() - 20, last, 0, 0]);
        assert!(after_tables(TEXT, 1).starts_with(b"*nat\n"));
    }

    #[test]
    fn a_payload_rejected_in_its_first_table_changed_nothing() {
        let refused = |line| {
            let reason = String::new();
            let error = RestoreError::Rejected { line, reason };
            is_untouched(&error, &mut Text::new(TEXT))
        };
        // Legacy reports the line of the COMMIT when the kernel rejects a table.
        let expected = [true, true, true, true, false, false, false];
        assert_eq!([0, 1, 2, 3, 4, 6, 99].map(refused), expected);
        for (committed, is_whole) in [(0, true), (1, false)] {
            let waited = std::time::Duration::ZERO;
            let locked = RestoreError::Locked { waited, committed };
            assert_eq!(is_untouched(&locked, &mut Text::new(TEXT)), is_whole);
        }
        for (text, is_whole) in [(TEXT, false), (&TEXT[..21], true)] {
            let stderr = String::new();
            let failed = RestoreError::Failed { status: 1, stderr };
            assert_eq!(is_untouched(&failed, &mut Text::new(text)), is_whole);
        }
        let stderr = String::new();
        let killed = RestoreError::Killed { signal: 9, stderr };
        assert!(!is_untouched(&killed, &mut Text::new(TEXT)));
    }
}
