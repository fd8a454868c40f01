//! Reads rules in the kernel: tables, single chains, and single rules.
//!
//! Each backend is read by the command that is cheapest for it, and each kind of failure has a
//! meaning of its own: a chain or rule is missing, a third-party rule cannot be printed, or nothing
//! is known.

use std::time::Duration;

use super::super::netlink::nftables::{has_nft_chain, has_nft_jump};
use super::binaries::{Binaries, QUERY_DEADLINE, RESTORE_ARGS, WAIT_ARGS, query, stdout_of};
use super::interface::{ListedChains, RunError};
use super::outcome::named_line;
use super::process::{Finished, Lock, ProgramExit, Run};
use crate::rules::{Backend, Rule, Table, Text};

/// Passes on every line that `iptables-save -t TABLE` prints, except for comments and counters.
///
/// The save program of nft reads all tables whichever is requested (1.8.9: 0.47 s of CPU for a
/// dozen rules alongside 80,000 in another table); `-S` reads one (0.02 s), and is not slower for a
/// large one. On legacy, `-S` would wait for the lock, which save does not take.
pub(super) async fn read_table(
    binaries: &Binaries,
    deadline: Duration,
    table: Table,
    each: &mut dyn FnMut(&str),
) -> Result<(), RunError> {
    let (program, args): (_, &[&str]) = match binaries.backend() {
        Backend::Nft => (&binaries.iptables, &["-t", table.as_str(), "-S"]),
        Backend::Legacy => (&binaries.save, &["-t", table.as_str()]),
    };
    let run = Run {
        program,
        args,
        deadline,
        lock: Lock::Separate,
    };
    let finished = match binaries.backend() {
        Backend::Nft => {
            let mut read = |line: &str| match save_header(line) {
                Some(header) => each(&header),
                None => each(line),
            };
            read(&format!("*{table}"));
            run.lines(&mut read).await
        }
        Backend::Legacy => run.lines(each).await,
    };
    stdout_of(program, finished).map_err(RunError::classified)?;
    if binaries.backend() == Backend::Nft {
        each("COMMIT");
    }
    Ok(())
}

/// Converts the `-N CHAIN` or `-P CHAIN POLICY` of `-S` to a declaration of the save program.
fn save_header(line: &str) -> Option<String> {
    if let Some(chain) = line.strip_prefix("-N ") {
        return Some(format!(":{chain} - [0:0]"));
    }
    let built_in = line.strip_prefix("-P ")?;
    Some(format!(":{built_in} [0:0]"))
}

/// Lists chains in one run of the restore program: `-S` changes nothing, and on legacy each run
/// reads the whole table.
pub(super) async fn list_chains(
    binaries: &Binaries,
    table: Table,
    chains: &[&str],
) -> Result<ListedChains, RunError> {
    let lines: Vec<String> = chains.iter().map(|chain| format!("-S {chain}\n")).collect();
    let payload = format!("*{table}\n{}COMMIT\n", lines.concat());
    let run = Run {
        program: &binaries.restore,
        args: &RESTORE_ARGS,
        deadline: QUERY_DEADLINE,
        lock: Lock::Separate,
    };
    match run.feed_and_read(&mut Text::new(payload)).await {
        Ok(finished) if matches!(finished.exit, ProgramExit::Exited(1..)) => {
            failed_listing(binaries, table, finished)
        }
        finished => stdout_of(run.program, finished).map(ListedChains::Whole),
    }
}

fn failed_listing(
    binaries: &Binaries,
    table: Table,
    finished: Finished,
) -> Result<ListedChains, RunError> {
    if is_missing_chain(&finished.stderr) {
        return Ok(ListedChains::Missing);
    }
    let cause = RunError::Failed {
        program: binaries.restore.to_string_lossy().into_owned(),
        exit: finished.exit,
        stderr: finished.stderr,
    };
    let cause = cause.classified();
    let RunError::Unprintable { reason, .. } = &cause else {
        return Err(cause);
    };
    let printed = whole_lines(&finished.stdout);
    let incompatible = incompatible_chain(reason);
    // Versions 1.8.7 to 1.8.9 call a chain that does not exist incompatible.
    if let Some(chain) = incompatible
        && !table.built_in_chains().contains(&chain)
        && !has_nft_chain(binaries.family, table.as_str(), chain)
    {
        return Ok(ListedChains::Missing);
    }
    let chain = incompatible.or_else(|| last_chain(&printed));
    Ok(ListedChains::Truncated {
        chain: chain.unwrap_or_default().to_owned(),
        printed,
        cause,
    })
}

/// Reports whether a listing failed because a chain does not exist. Legacy prints `line 2 failed`
/// without a reason, but this is the only reason for which `-S` fails so.
fn is_missing_chain(stderr: &str) -> bool {
    const MISSING: &str = "No chain/target/match by that name.";
    stderr.lines().any(|line| {
        line.contains(MISSING) || named_line(line).is_some_and(|(_, reason)| reason.is_empty())
    })
}

/// Returns the chain in ``chain `X' in table `nat' is incompatible``.
fn incompatible_chain(message: &str) -> Option<&str> {
    message.split_once("chain `")?.1.split('\'').next()
}

/// Returns stdout without an incomplete last line: legacy exits in the middle of the line of a rule
/// that it cannot print.
fn whole_lines(stdout: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(stdout).into_owned();
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    text
}

/// Returns the chain whose rules were printed last.
fn last_chain(printed: &str) -> Option<&str> {
    let is_header = |line: &'_ str| line.starts_with("-N ") || line.starts_with("-P ");
    let last = printed.lines().rfind(|line| is_header(line))?;
    last.split(' ').nth(1)
}

/// Reports whether a chain has a rule, by `iptables -C`. If that stops at a rule that it cannot
/// parse, a jump is looked up in the kernel.
pub(super) async fn has_rule(
    binaries: &Binaries,
    table: Table,
    chain: &str,
    rule: &str,
) -> Result<bool, RunError> {
    let mut args = WAIT_ARGS.to_vec();
    args.extend(["-C", chain, "-t", table.as_str()]);
    args.extend(arguments(rule));
    match query(&binaries.iptables, &args).await {
        Ok(_) => Ok(true),
        Err(RunError::Failed {
            exit: ProgramExit::Exited(1),
            stderr,
            ..
        }) if is_missing_rule(&stderr) => Ok(false),
        Err(RunError::Failed {
            exit: ProgramExit::Exited(2),
            stderr,
            ..
        }) if is_missing_target(&stderr) => Ok(false),
        Err(error) => match error.classified() {
            unprintable @ RunError::Unprintable { .. } => {
                has_jump(binaries, table, chain, rule).ok_or(unprintable)
            }
            other => Err(other),
        },
    }
}

/// Queries the kernel for the jump of a rule; `None` if the rule has no jump, or the query fails.
fn has_jump(binaries: &Binaries, table: Table, chain: &str, rule: &str) -> Option<bool> {
    let rule = rule.parse::<Rule>().ok()?;
    has_nft_jump(binaries.family, table.as_str(), chain, rule.target_chain()?).ok()
}

/// Reports whether `-C` failed because the rule, or its chain, does not exist. Status 1 alone may
/// be another error of the kernel.
fn is_missing_rule(stderr: &str) -> bool {
    stderr.contains("does a matching rule exist") || stderr.contains("No chain/target/match")
}

/// Reports whether `-C` failed because the target chain does not exist; the messages are those of
/// nft and legacy.
fn is_missing_target(stderr: &str) -> bool {
    stderr.contains("does not exist") || stderr.contains("Couldn't load target")
}

/// Splits a rule of ours into arguments. Only whole words are quoted, and none has escapes.
fn arguments(rule: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (index, part) in rule.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part);
        } else {
            words.extend(part.split_whitespace());
        }
    }
    words
}
