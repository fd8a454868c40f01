//! Exit status and stderr of `iptables-restore`, read as what to do next.
//!
//! Apart from [`exec`](super::exec) because the messages differ by backend and version, and each
//! form is a line in a table of tests rather than a process to run.
//!
//! Differs from upstream: there the expression looking for `line N failed` is anchored so that no
//! real output ever matches it, and the forms of the nft program are not known at all.

use std::io;
use std::time::Duration;

use super::Restored;
use super::process::Finished;
use super::run_error::{Ending, RESOURCE_PROBLEM, install_hint, said};

/// Why a payload is not in the kernel, split by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Another program held the xtables lock. The rest of the payload can be tried again.
    #[error("xtables lock not acquired within {waited:?}")]
    Locked {
        /// As long as the program waited; zero if it was not told to wait.
        waited: Duration,
        /// Number of tables of the payload that are in the kernel all the same.
        committed: usize,
    },

    /// A line was refused. Our bug or a foreign edit: show the line, and make the next sync full.
    #[error("`iptables-restore` refused line {line}: {reason}")]
    Refused {
        /// Counted from 1. Legacy names the `COMMIT` line for what the kernel refused.
        line: usize,
        /// In the program's words; legacy gives no reason for most lines.
        reason: String,
    },

    /// It did not end and was killed. What the kernel holds is unknown.
    #[error(
        "`iptables-restore` did not end within {after:?} and was killed{}",
        said(stderr)
    )]
    TimedOut {
        /// The deadline.
        after: Duration,
        /// The end of what it had printed by then.
        stderr: String,
    },

    /// Somebody killed it, mostly for memory. What the kernel holds is unknown.
    #[error("`iptables-restore` was killed by signal {signal}{}", said(stderr))]
    Killed {
        /// The signal's number.
        signal: i32,
        /// The end of what it had printed by then.
        stderr: String,
    },

    /// It failed without naming a line, or ended without having read all of its input.
    #[error("`iptables-restore` failed with status {status}{}", said(stderr))]
    Failed {
        /// The exit status; 0 if it succeeded without reading all.
        status: i32,
        /// The end of what it printed.
        stderr: String,
    },

    /// The program did not start. Fatal during start-up, retried later.
    #[error("cannot start `{program}`{}", install_hint(source))]
    Spawn {
        /// The name or path that was tried.
        program: String,
        /// What the system said.
        source: io::Error,
        /// Number of tables of the payload that are in the kernel all the same.
        committed: usize,
    },
}

impl RestoreError {
    /// Number of tables of the payload that are in the kernel, if the rest of it can be tried again
    /// as it is: nothing is wrong with it, and nothing else of it was applied.
    pub const fn retriable_behind(&self) -> Option<usize> {
        match self {
            Self::Locked { committed, .. } | Self::Spawn { committed, .. } => Some(*committed),
            _ => None,
        }
    }

    /// The error of a whole payload, of which so many tables and lines were applied before.
    pub(super) fn behind(mut self, tables: usize, lines: usize) -> Self {
        match &mut self {
            Self::Locked { committed, .. } | Self::Spawn { committed, .. } => *committed += tables,
            Self::Refused { line, .. } => *line += lines,
            Self::TimedOut { .. } | Self::Killed { .. } | Self::Failed { .. } => {}
        }
        self
    }
}

/// What a finished run of `iptables-restore` means.
pub(super) fn outcome(finished: Finished) -> Result<Restored, RestoreError> {
    let stderr = finished.stderr;
    match finished.ending {
        Ending::Exited(0) if finished.fed.cut_short => Err(RestoreError::Failed {
            status: 0,
            stderr: format!(
                "it ended without reading all of its input; {}",
                stderr.trim()
            ),
        }),
        Ending::Exited(0) => Ok(Restored {
            payload_bytes: finished.fed.bytes,
            lock_wait: finished.lock_wait,
            stderr,
        }),
        Ending::Exited(status) => Err(failure(status, stderr)),
        Ending::Signaled(signal) => Err(RestoreError::Killed { signal, stderr }),
        Ending::TimedOut(after) => Err(RestoreError::TimedOut { after, stderr }),
    }
}

/// What a status other than 0 means, going by what was printed.
fn failure(status: i32, stderr: String) -> RestoreError {
    if status == RESOURCE_PROBLEM && stderr.contains("holding the xtables lock") {
        let waited = number_after(&stderr, "Stopped waiting after ").unwrap_or(0);
        return RestoreError::Locked {
            waited: Duration::from_secs(waited),
            committed: 0,
        };
    }
    match refused_line(&stderr) {
        Some((line, reason)) => RestoreError::Refused { line, reason },
        None => RestoreError::Failed { status, stderr },
    }
}

/// The first line of the payload that the program complained of, and its words about it.
fn refused_line(stderr: &str) -> Option<(usize, String)> {
    let mut before = Vec::new();
    for text in stderr.lines().map(str::trim) {
        if let Some(line) = number_after(text, "Error occurred at line: ") {
            return Some((usize::try_from(line).ok()?, words(&before)));
        }
        if let Some(line) = number_after(text, "COMMIT expected at line ") {
            return Some((usize::try_from(line).ok()?, "COMMIT expected".to_owned()));
        }
        if let Some((line, reason)) = named_line(text) {
            // Such as `missing kernel module?`, which explains more than the refusal does.
            before.retain(|text| text.starts_with("Warning:"));
            before.insert(0, reason);
            return Some((line, words(&before)));
        }
        before.push(text);
    }
    None
}

/// Reads `PROGRAM: line 3 failed`, the same with `: REASON`, and the `line 3: REASON` that nft
/// prints for what the kernel refused.
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

/// The complaint without the program's name and version in front of it.
fn words(lines: &[&str]) -> String {
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

fn number_after(text: &str, words: &str) -> Option<u64> {
    let (_, after) = text.split_once(words)?;
    after
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
#[path = "tests/restore_error.rs"]
mod tests;
