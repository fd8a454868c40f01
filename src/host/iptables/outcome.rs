//! Reads the outcomes of the iptables binaries from their exit status and messages.
//!
//! Messages differ by backend and version, so their parsing is kept separate from running the
//! programs: each form is a line in a table of tests.
//!
//! Differs from upstream: there the expression looking for `line N failed` is anchored so that no
//! real output ever matches it, and the forms of the nft program are not known at all.

use std::time::Duration;

use super::interface::{RESOURCE_PROBLEM, RestoreError, Restored, RunError};
use super::process::{Finished, ProgramExit};

impl RunError {
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
    let stderr = finished.stderr;
    match finished.exit {
        ProgramExit::Exited(0) if finished.input.is_truncated => Err(RestoreError::Failed {
            status: 0,
            stderr: format!("exited without reading all of its input; {}", stderr.trim()),
        }),
        ProgramExit::Exited(0) => Ok(Restored {
            payload_bytes: finished.input.bytes,
            lock_wait: finished.lock_wait,
            stderr,
        }),
        ProgramExit::Exited(status) => Err(restore_failure(status, stderr)),
        ProgramExit::Signaled(signal) => Err(RestoreError::Killed { signal, stderr }),
        ProgramExit::TimedOut(after) => Err(RestoreError::TimedOut { after, stderr }),
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
        None => RestoreError::Failed { status, stderr },
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

#[cfg(test)]
#[path = "tests/outcome.rs"]
mod tests;
