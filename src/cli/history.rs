//! `history`: prints past syncs from the folder of `--state-dir`, on the node or from a copy.

use std::collections::BTreeSet;
use std::io::Write;

use super::arguments;
use super::snapshot;
use super::terminal::{self, escaped};
use crate::config::{HistoryArgs, OutputArg};
use crate::history::{HistoryEntry, HistoryRecord};
use crate::ruleset::{ChainKind, ServiceChain};
use crate::telemetry;

/// Names of Services on a line.
const SHOWN_SERVICES: usize = 3;

/// Prints a line for each sync, the newest last.
///
/// # Errors
///
/// The folder cannot be read, or has no history.
pub(super) fn history(args: &HistoryArgs) -> anyhow::Result<()> {
    terminal::install_quiet_log()?;
    let folder = &args.state_dir;
    let files = snapshot::open_history(folder)?;
    let since = args.since.map(arguments::moment);
    terminal::stdout(|out| {
        let mut result = Ok(());
        let mut print = |entry: HistoryEntry| {
            let HistoryEntry::Record(record) = entry else {
                return;
            };
            let is_wanted = since.is_none_or(|since| record.at >= since)
                && args
                    .service
                    .as_ref()
                    .is_none_or(|name| concerns(&record, name));
            if is_wanted && result.is_ok() {
                result = write_record(out, &record, args);
            }
        };
        let broken = files.read(&mut print);
        if broken > 0 {
            tracing::warn!(
                "{broken} files of `{}` end early or have records that cannot be read",
                folder.display()
            );
        }
        result
    })
}

/// Reports whether a record is about a Service, `[NAMESPACE/]NAME`.
fn concerns(record: &HistoryRecord, service: &str) -> bool {
    let name = full_name(service);
    record.services.contains(&name) || !rules_of(&record.payload, &name).is_empty()
}

fn full_name(service: &str) -> String {
    if service.contains('/') {
        service.to_owned()
    } else {
        format!("default/{service}")
    }
}

fn write_record(
    out: &mut dyn Write,
    record: &HistoryRecord,
    args: &HistoryArgs,
) -> anyhow::Result<()> {
    if let OutputArg::Json = args.output.format {
        let line = serde_json::to_string(record)?;
        return Ok(writeln!(out, "{}", escaped(&line))?);
    }
    // A line end in a text may not forge a record.
    writeln!(out, "{}", telemetry::escaped(&line(record)))?;
    if let Some(service) = &args.service {
        for rule in rules_of(&record.payload, &full_name(service)) {
            writeln!(out, "    {}", telemetry::escaped(rule))?;
        }
    }
    Ok(())
}

/// Renders time, family, scope, duration, size and cause of a sync.
fn line(record: &HistoryRecord) -> String {
    let HistoryRecord {
        at,
        family,
        scope,
        took_ms,
        bytes,
        ..
    } = record;
    let mut text = format!("{at:.3}  {family}  {scope:<8}  {took_ms:>8.1} ms  {bytes:>8} B  ");
    text.push_str(&cause(record));
    for drift in &record.drift {
        text.push_str("; changed by ");
        text.push_str(match drift.program.as_str() {
            "" => "another program",
            program => program,
        });
        text.push_str(": ");
        text.push_str(&drift.names);
    }
    if !record.error.is_empty() {
        text.push_str("; failed: ");
        text.push_str(&record.error);
    }
    text
}

fn cause(record: &HistoryRecord) -> String {
    let shown: Vec<&str> = record.services.iter().map(String::as_str).collect();
    let first = shown.get(..SHOWN_SERVICES).unwrap_or(&shown);
    let mut causes = Vec::new();
    if !record.reason.is_empty() {
        causes.push(record.reason.clone());
    }
    causes.extend(first.iter().map(|name| (*name).to_owned()));
    let more = record.service_count.saturating_sub(first.len() as u64);
    if more > 0 {
        causes.push(format!("{more} more"));
    }
    if causes.is_empty() {
        return "no Service changed".to_owned();
    }
    causes.join(", ")
}

/// Returns the lines of a payload about a Service: those that name it, and those of its chains.
fn rules_of<'p>(payload: &'p str, service: &str) -> Vec<&'p str> {
    let ends = [':', ' ', '"'];
    let names = |line: &str| {
        line.match_indices(service).any(|(at, _)| {
            let (before, after) = (line.get(..at), line.get(at + service.len()..));
            let begins = before.is_none_or(|text| text.ends_with([' ', '"']));
            begins && after.is_none_or(|text| text.is_empty() || text.starts_with(ends))
        })
    };
    let mut chains = BTreeSet::new();
    let with_name = payload.lines().filter(|line| names(line));
    let of_named = with_name.flat_map(|line| [chain(line), target(line)]);
    chains.extend(of_named.flatten());
    // Chains of endpoints, whose rules have no comments in large clusters.
    let jumps = payload.lines().filter(|line| {
        let of_service = chain(line).is_some_and(|chain| chains.contains(chain));
        of_service && ChainKind::of(target(line).unwrap_or_default()) == Some(ChainKind::Endpoint)
    });
    let endpoints: BTreeSet<&str> = jumps.filter_map(target).collect();
    chains.extend(endpoints);
    let is_of_chain = |line: &str| chain(line).is_some_and(|chain| chains.contains(chain));
    payload
        .lines()
        .filter(|line| names(line) || is_of_chain(line))
        .collect()
}

/// Returns the Service chain that a line declares, deletes or adds a rule to.
fn chain(line: &str) -> Option<&str> {
    let rest = ["-A ", "-X ", ":"]
        .iter()
        .find_map(|start| line.strip_prefix(start))?;
    let name = rest.split(' ').next()?;
    ServiceChain::parse(name).map(|_| name)
}

fn target(line: &str) -> Option<&str> {
    let (_, target) = line.rsplit_once(" -j ")?;
    ServiceChain::parse(target).map(|_| target)
}

#[cfg(test)]
#[path = "tests/history.rs"]
mod tests;
