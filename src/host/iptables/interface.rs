//! The trait [`Iptables`], and the results of its functions; errors are split by what the caller
//! can do about them, and show the rejected line, and whether the kernel has a part of the payload.
//! They are read from exit statuses and messages, whose forms differ by backend and version: each
//! is a line in a table of tests.
//!
//! A trait, so that callers can be tested without a kernel.
//!
//! Differs from upstream: there the expression looking for `line N failed` is anchored so that no
//! real output ever matches it, and the forms of the nft program are not known at all.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::payload::COMMIT;
use super::process::{Finished, ProgramExit};
use crate::rules::{ChainSet, Payload, Table};

/// The rules of one IP family in the kernel, and the counters that they name.
///
/// Commands of one family never overlap: the owner awaits one before it starts the next.
#[allow(
    async_fn_in_trait,
    reason = "callers live on one single-threaded runtime, so no future has to be Send"
)]
pub trait Iptables {
    /// Applies a payload without flushing chains that it does not name, within the usual deadline
    /// or a shorter one. Each section up to `COMMIT` is applied atomically; if one fails, those
    /// before it may be in the kernel. On nft, nat may have several.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`]: its variants are the actions left to the caller.
    async fn restore(
        &self,
        payload: &mut dyn Payload,
        deadline: Option<Duration>,
    ) -> Result<Restored, RestoreError>;

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

    /// Has to be called after each sync, with the entries that the rules of the proxy have in each
    /// table now; without those of a table if they are not known. With detection [by
    /// size](ChangeDetection::BySize), all other entries stay the same while no program adds or
    /// removes rules: this shows a change in the moment after a restore.
    fn synced(&self, _entries: &[(Table, u64)]) {}

    /// Waits until programs have released the xtables lock, and returns the time of that: the rules
    /// that they changed are committed by then, whether or not the size of their table is another
    /// one. Changes until then are not returned by [`changed`](Iptables::changed). Never returns if
    /// there is no lock to watch. Cancel safe.
    async fn lock_released(&self) -> Instant {
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

/// Exit status with which iptables reports a resource problem, such as a held lock.
pub(super) const RESOURCE_PROBLEM: i32 = 4;

/// Failure of a program that reads rules.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The program did not start. If it is missing, the family counts as unsupported.
    #[error("cannot start `{program}`: {cause}{}", install_hint(cause))]
    Spawn { program: String, cause: io::Error },
    /// The program started and did not succeed.
    #[error("`{program}` {exit}{}", stderr_suffix(stderr))]
    Failed {
        program: String,
        exit: ProgramExit,
        /// End of stderr.
        stderr: String,
    },
    /// The program cannot print a third-party rule: the table has rules, and they are unknown.
    #[error("`{program}` cannot print all rules: {reason}")]
    Unprintable {
        program: String,
        /// Line of stderr that names the rule or its chain.
        reason: String,
    },
    /// The program is older than the oldest supported version.
    #[error(
        "{program} {}.{}.{} is too old: must be 1.6.2 or newer\nhint: upgrade the package `iptables`, \
         or put the folder of a newer one in PATH",
        number.0,
        number.1,
        number.2
    )]
    TooOld {
        program: String,
        number: (u16, u16, u16),
    },
}

impl RunError {
    /// Reports whether a retry may succeed a moment later: the lock is held, or a program is being
    /// replaced. Any other error may last until the rules in the kernel change.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Spawn { .. } => true,
            Self::Failed { exit, .. } => matches!(exit, ProgramExit::Exited(RESOURCE_PROBLEM)),
            Self::Unprintable { .. } | Self::TooOld { .. } => false,
        }
    }

    /// Returns [`Unprintable`](Self::Unprintable) if stderr has such a message, or this error.
    pub(in crate::host) fn classified(self) -> Self {
        match self {
            Self::Failed {
                program,
                exit: exit @ ProgramExit::Exited(_),
                stderr,
            } => match unprintable(&stderr) {
                Some(reason) => Self::Unprintable { program, reason },
                None => Self::Failed {
                    program,
                    exit,
                    stderr,
                },
            },
            other => other,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Size of the payload.
    pub payload_bytes: u64,
    /// Time that the program was seen waiting for the xtables lock. A lower bound: zero on nft,
    /// which takes no lock, and where `/proc/PID/syscall` is not readable.
    pub lock_wait: Duration,
    /// Warnings that the program printed, for the log; usually empty.
    pub stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Another program held the xtables lock. The rest of the payload can be retried.
    #[error("xtables lock not acquired within {waited:?}")]
    Locked {
        /// Time that the program waited; zero if it does not say.
        waited: Duration,
        /// Number of tables of the payload that were applied before.
        committed: usize,
    },

    /// A line was rejected, because of a bug here or a change by another program: log the line, and
    /// write all rules.
    #[error("`iptables-restore` rejected line {line}: {reason}")]
    Rejected {
        /// Number of the line, from 1. Legacy names the line of `COMMIT` if the kernel rejected a
        /// rule.
        line: usize,
        /// Message of the program; legacy gives no reason for most lines.
        reason: String,
    },

    /// The program failed without naming a line, exited without reading all of its input, or was
    /// killed: at its deadline, or from outside, usually for lack of memory. After it was killed,
    /// the state of the kernel is unknown.
    #[error("`iptables-restore` {exit}{}", stderr_suffix(stderr))]
    Failed {
        /// Status 0 if the program succeeded without reading all input.
        exit: ProgramExit,
        /// End of stderr.
        stderr: String,
    },

    /// The program did not start. Fatal during startup, retried later.
    #[error("cannot start `{program}`: {cause}{}", install_hint(cause))]
    Spawn {
        program: String,
        cause: io::Error,
        /// Number of tables of the payload that were applied before.
        committed: usize,
    },
}

impl RestoreError {
    /// Returns the number of tables of the payload that were applied, if the rest of it can be
    /// retried unchanged: the payload is valid, and nothing else of it was applied.
    pub const fn committed_if_independent_of_payload(&self) -> Option<usize> {
        match self {
            Self::Locked { committed, .. } | Self::Spawn { committed, .. } => Some(*committed),
            _ => None,
        }
    }

    /// Reports whether any other payload would have failed as well: the lock was busy, or the
    /// program did not start.
    pub const fn is_independent_of_payload(&self) -> bool {
        self.committed_if_independent_of_payload().is_some()
    }

    /// Converts the error of one table to that of the payload, in which `tables` tables with
    /// `lines` lines precede it.
    pub(super) fn preceded_by(mut self, tables: usize, lines: usize) -> Self {
        match &mut self {
            Self::Locked { committed, .. } | Self::Spawn { committed, .. } => *committed += tables,
            Self::Rejected { line, .. } => *line += lines,
            Self::Failed { .. } => {}
        }
        self
    }

    /// Reports whether the kernel or the program rejected a line of the payload, so that it would
    /// be rejected again.
    pub(crate) const fn is_conclusive(&self) -> bool {
        matches!(self, Self::Rejected { .. })
    }
}

/// Lines shown before and after, as upstream shows: enough to see the chain of a rule.
const NEIGHBORS: usize = 3;

/// Maximum bytes shown of a line; the kernel's limits keep rules far below it.
const LONGEST_LINE: usize = 1024;

/// Lines of a payload around one of them, which is marked when printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// Number of the marked line, from 1.
    pub line: usize,
    /// Lines with their numbers, in order; empty if the payload has no such line.
    pub lines: Vec<(usize, String)>,
}

/// Returns line number `line` of the payload with three lines before and after.
///
/// The payload has to be unread: payloads are never held as a whole, so the lines are found by
/// rendering the payload once more.
pub(crate) fn excerpt(payload: &mut dyn Payload, line: usize) -> Excerpt {
    let mut search = LineSearch {
        wanted: line.saturating_sub(NEIGHBORS)..=line.saturating_add(NEIGHBORS),
        number: 1,
        found: Vec::new(),
    };
    let mut piece = Vec::new();
    let mut more = true;
    while more && search.number <= *search.wanted.end() {
        piece.clear();
        more = payload.write_next(&mut piece);
        search.read(&piece);
    }
    Excerpt {
        line,
        lines: search.found,
    }
}

struct LineSearch {
    wanted: std::ops::RangeInclusive<usize>,
    number: usize,
    found: Vec<(usize, String)>,
}

impl LineSearch {
    /// Reads whole lines; the last one may lack its line feed.
    fn read(&mut self, piece: &[u8]) {
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', piece).chain([piece.len()]);
        for end in ends {
            let line = piece.get(start..end).unwrap_or_default();
            if start >= piece.len() || self.number > *self.wanted.end() {
                return;
            }
            if self.wanted.contains(&self.number) {
                let shown = line.get(..LONGEST_LINE).unwrap_or(line);
                let text = String::from_utf8_lossy(shown).into_owned();
                self.found.push((self.number, text));
            }
            self.number += 1;
            start = end + 1;
        }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .lines
            .last()
            .map_or(0, |(number, _)| number.to_string().len());
        for (index, (number, text)) in self.lines.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            let marker = if *number == self.line { '>' } else { ' ' };
            write!(f, "{end}{marker} {number:width$} | {text}")?;
        }
        Ok(())
    }
}

/// Reports whether a payload that failed has changed nothing in the kernel: each table is applied
/// whole or not at all, one after the other, and none ended before the rejected line. After a
/// program was killed this is unknown.
pub(crate) fn is_untouched(error: &RestoreError, again: &mut dyn Payload) -> bool {
    match error {
        RestoreError::Rejected { line, .. } => commits_before(*line, again) == 0,
        // The program reports no error once the last table is committed.
        RestoreError::Failed {
            exit: ProgramExit::Exited(1..),
            ..
        } => commits_before(usize::MAX, again) <= 1,
        error => error.committed_if_independent_of_payload() == Some(0),
    }
}

/// Returns the number of tables that end before this line, counted from 1.
fn commits_before(line: usize, payload: &mut dyn Payload) -> usize {
    let (mut text, mut before, mut commits) = (Vec::new(), 1, 0);
    while before < line && payload.write_next(&mut text) {
        for written in text.split_inclusive(|byte| *byte == b'\n') {
            commits += usize::from(before < line && written == COMMIT);
            before += 1;
        }
        text.clear();
    }
    commits
}

/// Reason why rules cannot name a packet counter.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CounterError {
    /// The kernel does not support counters, or denies access to them.
    #[error("cannot create nfacct counter `{name}`: {}", reason.desc())]
    Kernel { name: String, reason: Errno },
    /// The counter exists, but rules with `-m nfacct` are rejected: the match is another part of
    /// the kernel and of iptables than the counters are.
    #[error("rules cannot match nfacct counters: {0}")]
    Match(Arc<RestoreError>),
}

/// Returns the line of stderr that reports a rule that cannot be printed; `None` if the program
/// failed for another reason.
///
/// - nft, a chain with expressions that only `nft` knows: `chain `X' in table `nat' is
///   incompatible`; 1.8.7 to 1.8.9 print the same for a chain that does not exist.
/// - nft since 1.8.9, an expression that it cannot translate, or a match without its extension:
///   `Error: match extension not found`, then `Parsing nftables rule failed`, status 3.
/// - legacy, a match or target without its extension: `Can't find library for match `dscp'`,
///   status 1.
pub(in crate::host) fn unprintable(stderr: &str) -> Option<String> {
    let find = |text: &str| stderr.lines().find(|line| line.contains(text));
    if find("Parsing nftables rule failed").is_some() {
        let cause = stderr.lines().find(|line| line.starts_with("Error: "));
        return Some(cause.unwrap_or("Parsing nftables rule failed").to_owned());
    }
    // A surplus base chain is not an error: nft names it in a comment and prints the rest.
    let line = find(" is incompatible").or_else(|| find("Can't find library for "))?;
    Some(line.trim_start_matches("# ").to_owned())
}

/// Reads the result of a finished run of `iptables-restore`.
pub(in crate::host) fn restore_result(finished: Finished) -> Result<Restored, RestoreError> {
    let (exit, stderr) = (finished.exit, finished.stderr);
    match exit {
        ProgramExit::Exited(0) if finished.input.is_truncated => Err(RestoreError::Failed {
            exit,
            stderr: format!("exited without reading all of its input; {}", stderr.trim()),
        }),
        ProgramExit::Exited(0) => Ok(Restored {
            payload_bytes: finished.input.bytes,
            lock_wait: finished.lock_wait,
            stderr,
        }),
        ProgramExit::Exited(status) => Err(restore_failure(status, stderr)),
        ProgramExit::Signaled(_) | ProgramExit::TimedOut(_) => {
            Err(RestoreError::Failed { exit, stderr })
        }
    }
}

/// Classifies an exit status other than 0 by the messages on stderr.
fn restore_failure(status: i32, stderr: String) -> RestoreError {
    if status == RESOURCE_PROBLEM && stderr.contains("holding the xtables lock") {
        let waited = number_after(&stderr, "Stopped waiting after ").unwrap_or(0);
        return RestoreError::Locked {
            waited: Duration::from_secs(waited),
            committed: 0,
        };
    }
    match rejected_line(&stderr) {
        Some((line, reason)) => RestoreError::Rejected { line, reason },
        None => RestoreError::Failed {
            exit: ProgramExit::Exited(status),
            stderr,
        },
    }
}

/// Returns the first line of the payload that the program rejected, and the reason.
fn rejected_line(stderr: &str) -> Option<(usize, String)> {
    let mut before = Vec::new();
    for text in stderr.lines().map(str::trim) {
        if let Some(line) = number_after(text, "Error occurred at line: ") {
            return Some((usize::try_from(line).ok()?, reason(&before)));
        }
        if let Some(line) = number_after(text, "COMMIT expected at line ") {
            return Some((usize::try_from(line).ok()?, "COMMIT expected".to_owned()));
        }
        if let Some((line, message)) = named_line(text) {
            // Warnings such as `missing kernel module?` explain more than the error does.
            before.retain(|text| text.starts_with("Warning:"));
            before.insert(0, message);
            return Some((line, reason(&before)));
        }
        before.push(text);
    }
    None
}

/// Reads `PROGRAM: line 3 failed`, `PROGRAM: line 3 failed: REASON`, and the `line 3: REASON` that
/// nft prints if the kernel rejected a line. The reason may be empty.
pub(super) fn named_line(text: &str) -> Option<(usize, &str)> {
    let after = match text.split_once(": line ") {
        Some((_, after)) => after,
        None => text.strip_prefix("line ")?,
    };
    let (number, reason) = after.split_once(|c: char| !c.is_ascii_digit())?;
    let line = number.parse().ok()?;
    if let Some(rest) = reason.strip_prefix("failed") {
        return Some((line, rest.trim_start_matches(':').trim()));
    }
    // `line 1 table name ...` is explained by a later `Error occurred at line: 1`.
    after
        .starts_with(&format!("{number}: "))
        .then_some((line, reason.trim()))
}

/// Joins lines of stderr, without the program's name and version in front.
fn reason(lines: &[&str]) -> String {
    let kept: Vec<&str> = lines
        .iter()
        .map(|line| match line.split_once(" v") {
            Some((_, rest)) if line.contains("tables-") && rest.contains("): ") => {
                rest.split_once("): ").map_or(*line, |(_, reason)| reason)
            }
            Some((_, rest)) if line.contains("tables-") && rest.ends_with("):") => "",
            _ => line,
        })
        .filter(|line| !line.is_empty())
        .collect();
    if kept.is_empty() {
        return "no reason given".to_owned();
    }
    kept.join("; ")
}

fn number_after(text: &str, prefix: &str) -> Option<u64> {
    let (_, after) = text.split_once(prefix)?;
    after
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Returns `: STDERR`, or nothing if stderr is empty, with a hint if permissions are missing.
fn stderr_suffix(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text if text.contains("Permission denied") || text.contains("not permitted") => {
            format!(
                ": {text}\nhint: run as root, or in a container with CAP_NET_ADMIN and CAP_NET_RAW"
            )
        }
        // Control characters of programs must not reach the log.
        text => format!(
            ": {}",
            text.replace(|c: char| c.is_control() && c != '\n', " ")
        ),
    }
}

/// Returns a hint on a line of its own for a missing program.
fn install_hint(cause: &io::Error) -> &'static str {
    if cause.kind() == io::ErrorKind::NotFound {
        "\nhint: install the package `iptables`, or put the folder that holds it in PATH"
    } else {
        ""
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeDetection {
    Off,
    /// Changes are detected by the sizes of tables. A change that keeps the size is missed, as is
    /// one between the end of a restore of ours and the next reading of sizes.
    BySize,
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
        cause: RunError,
    },
}

/// Maximum chains of one table that are listed by name. A flush of a table with thousands of
/// Services touches tens of thousands: from some number on, reading the table once is cheaper.
const MOST_CHAINS: usize = 1000;

/// Maximum transactions whose removed chains are reported one by one.
const MOST_REMOVALS: usize = 16;

/// Maximum programs that are listed by name.
const MOST_PROGRAMS: usize = 8;

/// Changes by other programs since the last report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignChange {
    /// Chains that were added, deleted, or changed. All of a table if it is not known which.
    pub chains: ChainSet,
    /// Names of the programs, where the kernel reports them.
    pub programs: BTreeSet<String>,
    /// Chains that each transaction removed and did not add again, if the kernel reports them.
    pub removals: Vec<ChainRemoval>,
    pub source: ChangeSource,
}

/// Chains that a transaction of another program removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainRemoval {
    /// Name of the program; empty if the kernel does not report it.
    pub program: String,
    pub chains: BTreeSet<(Table, Box<str>)>,
}

enum_of_words! {
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ChangeSource {
        /// The kernel reported every transaction.
        #[default]
        Events = "event",
        LostEvents = "lost_events",
        /// The number or the size of a table's rules has changed.
        TableSizes = "table_size",
    }
}

impl ForeignChange {
    /// Returns a change of unknown extent in some tables.
    pub fn unknown(source: ChangeSource, tables: impl IntoIterator<Item = Table>) -> Self {
        Self {
            chains: ChainSet::of_tables(tables),
            programs: BTreeSet::new(),
            removals: Vec::new(),
            source,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Reports whether all changed chains are known.
    pub fn is_exact(&self) -> bool {
        self.chains.whole_tables().next().is_none()
    }

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

    pub fn by(&mut self, program: &str) {
        if !program.is_empty() && self.programs.len() < MOST_PROGRAMS {
            self.programs.insert(program.to_owned());
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for table in other.chains.whole_tables() {
            self.touch_table(table);
        }
        for (table, chain) in other.chains.named() {
            self.touch(table, chain);
        }
        for program in &other.programs {
            self.by(program);
        }
        let room = MOST_REMOVALS.saturating_sub(self.removals.len());
        self.removals
            .extend(other.removals.iter().take(room).cloned());
        self.source = self.source.max(other.source);
    }
}

#[cfg(test)]
#[path = "tests/interface.rs"]
mod tests;
