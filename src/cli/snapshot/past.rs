//! Rebuilds the rules of a moment from a history.

use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;

use super::rules::{RuleOrigin, RuleSnapshot};
use crate::cli::terminal::{Progress, escaped};
use crate::history::{HistoryFiles, PastRules, read_checkpoint, rules_at};
use crate::inspect::catalog::RulesetSource;
use crate::net::IpFamily;
use crate::rules::{Rule, RuleSet, Table};

impl RuleSnapshot {
    /// Rebuilds the rules of a moment from the folder of `--state-dir`.
    ///
    /// # Errors
    ///
    /// The folder cannot be read or has no history, or the rules of no family are known.
    pub(in crate::cli) fn past(folder: &Path, at: Timestamp) -> anyhow::Result<Self> {
        let _progress = Progress::start("reading the history");
        let files = open(folder)?;
        let mut snapshot = Self {
            origin: RuleOrigin::Past(folder.to_owned(), at),
            observed_at: Some(at),
            ..Self::default()
        };
        let mut problems = Vec::new();
        for (family, found) in rules_at(&files, at).into_pairs() {
            match found {
                Some(Ok(past)) => snapshot.add_past(family, &past)?,
                Some(Err(problem)) => problems.push(problem),
                None => {}
            }
        }
        anyhow::ensure!(
            !snapshot.families.is_empty(),
            "`{}`: {}\nhint: `deltaproxy history` lists the syncs",
            folder.display(),
            if problems.is_empty() {
                "the history has no checkpoint of rules".into()
            } else {
                escaped(&problems.join("; ")).into_owned()
            }
        );
        for problem in problems {
            tracing::warn!("{}; they are left out", escaped(&problem));
        }
        Ok(snapshot)
    }

    fn add_past(&mut self, family: IpFamily, past: &PastRules) -> anyhow::Result<()> {
        let rules = rebuilt(past);
        let rules = rules.with_context(|| format!("cannot rebuild the {family} rules"))?;
        for note in &past.notes {
            tracing::warn!("{family}: {}", escaped(note));
        }
        self.families.insert(family);
        *self.rules.get_mut(family) = rules;
        *self.sources.get_mut(family) = RulesetSource::Kernel;
        Ok(())
    }
}

/// Returns the IPv4 rules of a moment, for tests.
#[cfg(feature = "testing")]
pub fn past_rules(folder: &Path, at: Timestamp) -> anyhow::Result<RuleSet> {
    Ok(RuleSnapshot::past(folder, at)?.rules.v4)
}

/// Finds the files of a history.
///
/// # Errors
///
/// The folder cannot be read, or has no history.
pub(in crate::cli) fn open(folder: &Path) -> anyhow::Result<HistoryFiles> {
    let files = HistoryFiles::find(folder);
    let files = files.with_context(|| format!("cannot read `{}`", folder.display()))?;
    anyhow::ensure!(
        !files.is_empty(),
        "`{}` has no history\nhint: give the folder that `run --state-dir` names",
        folder.display()
    );
    Ok(files)
}

/// Applies the payloads to the checkpoint.
fn rebuilt(past: &PastRules) -> anyhow::Result<RuleSet> {
    let text = read_checkpoint(&past.checkpoint).with_context(|| {
        let path = past.checkpoint.display();
        format!("cannot read `{path}`")
    })?;
    let mut rules = RuleSet::parse(&escaped(&text))?;
    for payload in &past.payloads {
        let payload = without_present_jumps(&escaped(payload), &rules);
        // As a dump, because it may delete chains that only the kernel had.
        rules.add_tables(&payload)?;
    }
    Ok(rules)
}

/// Removes the insertions of jumps that the rules have: another program deleted them in the kernel.
fn without_present_jumps(payload: &str, rules: &RuleSet) -> String {
    let mut table = None;
    let mut kept = String::new();
    for line in payload.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = Table::from_name(name);
        }
        let is_present = || {
            let (chain, rule) = line.strip_prefix("-I ")?.split_once(' ')?;
            let rule: Rule = rule.parse().ok()?;
            Some(rules.rules_of(table?, chain).contains(&rule))
        };
        if is_present() != Some(true) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
#[path = "tests/past.rs"]
mod tests;
