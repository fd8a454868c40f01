//! Listing single chains, and what each way to fail means.
//!
//! Kept separate from the other commands because a failure has three meanings: a chain does not
//! exist, it has a third-party rule that the program cannot print, or there is no answer.

use super::exec::Exec;
use super::nft_tables::has_nft_chain;
use super::process::{Finished, Lock, Run};
use super::programs::{QUERY_DEADLINE, printed};
use super::restore_error::named_line;
use super::{Ending, ListedChains, RunError};
use crate::rules::{Table, Text};

impl Exec {
    /// Lists all chains in one run of the restore program: `-S` changes nothing, and on legacy each
    /// run reads the whole table.
    pub(super) async fn list_chains(
        &self,
        table: Table,
        chains: &[&str],
    ) -> Result<ListedChains, RunError> {
        let lines: Vec<String> = chains.iter().map(|chain| format!("-S {chain}\n")).collect();
        let payload = format!("*{table}\n{}COMMIT\n", lines.concat());
        let run = Run {
            program: &self.programs.restore,
            args: self.restore_args(),
            deadline: QUERY_DEADLINE,
            lock: Lock::Separate,
        };
        match run.ask(&mut Text::new(payload)).await {
            Ok(finished) if matches!(finished.ending, Ending::Exited(1..)) => {
                self.listing_failed(table, finished)
            }
            finished => printed(run.program, finished).map(ListedChains::Whole),
        }
    }

    fn listing_failed(&self, table: Table, finished: Finished) -> Result<ListedChains, RunError> {
        if says_missing(&finished.stderr) {
            return Ok(ListedChains::Missing);
        }
        let cause = RunError::Failed {
            program: self.programs.restore.to_string_lossy().into_owned(),
            ending: finished.ending,
            stderr: finished.stderr,
        };
        let cause = cause.explained();
        let RunError::Unprintable { said, .. } = &cause else {
            return Err(cause);
        };
        let printed = whole_lines(&finished.stdout);
        let incompatible = named_chain(said);
        // Versions 1.8.7 to 1.8.9 call a chain that does not exist incompatible.
        if let Some(chain) = incompatible
            && !table.built_in_chains().contains(&chain)
            && !has_nft_chain(self.programs.family, table.as_str(), chain)
        {
            return Ok(ListedChains::Missing);
        }
        let chain = incompatible.or_else(|| last_chain(&printed));
        Ok(ListedChains::Cut {
            chain: chain.unwrap_or_default().to_owned(),
            printed,
            cause,
        })
    }
}

/// Whether the words are those for a chain that does not exist. Legacy gives no reason with `line 2
/// failed`, but `-S` can fail so for no other one.
fn says_missing(stderr: &str) -> bool {
    const MISSING: &str = "No chain/target/match by that name.";
    stderr.lines().any(|line| {
        line.contains(MISSING) || named_line(line).is_some_and(|(_, reason)| reason.is_empty())
    })
}

/// The chain in ``chain `X' in table `nat' is incompatible``.
fn named_chain(said: &str) -> Option<&str> {
    said.split_once("chain `")?.1.split('\'').next()
}

/// Legacy ends in the middle of the line of the rule that it cannot print.
fn whole_lines(stdout: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(stdout).into_owned();
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    text
}

/// The chain whose rules were being printed last.
fn last_chain(printed: &str) -> Option<&str> {
    let header = |line: &'_ str| line.starts_with("-N ") || line.starts_with("-P ");
    let last = printed.lines().rfind(|line| header(line))?;
    last.split(' ').nth(1)
}
