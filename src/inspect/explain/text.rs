//! Renders explanations as text for people.
//!
//! Rules that match all packets get a line each, and so does every endpoint.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::explanation::Explanation;
use super::path::{PacketPath, PathResult, SharedRules};
use super::path_text::{DIM, Detail, PathText, WARNING};
use super::{reason_text, summary, traversed};

const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Maximum destinations of which the rules are shown without `--verbose`.
const MAX_DESTINATIONS: usize = 2;

/// Renders explanations as text with colors.
pub(crate) fn text(explanations: &[Explanation<'_>], detail: Detail) -> String {
    let is_overview = explanations.len() > MAX_DESTINATIONS && detail == Detail::Short;
    let mut writer = ExplanationText {
        paths: PathText {
            text: String::new(),
            detail,
        },
        is_overview,
        noted: BTreeSet::new(),
    };
    for (index, explanation) in explanations.iter().enumerate() {
        if index > 0 {
            writer.paths.text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writer.explanation(explanation);
    }
    if is_overview {
        let hint = "\nFor the rules, add --verbose or query one of these addresses\n";
        writer.paths.text.push_str(hint);
    }
    writer.paths.text
}

/// Text of explanations.
struct ExplanationText {
    paths: PathText,
    /// The rules are left out.
    is_overview: bool,
    noted: BTreeSet<String>,
}

impl ExplanationText {
    fn explanation(&mut self, explanation: &Explanation<'_>) -> fmt::Result {
        writeln!(
            self.paths.text,
            "{BOLD}{}{BOLD:#}",
            summary::title(explanation)
        )?;
        if let Some(time) = explanation.affinity {
            let time = seconds(time);
            writeln!(
                self.paths.text,
                "sessionAffinity ClientIP: a client keeps its endpoint for {time}"
            )?;
        }
        if let Some(ip) = explanation.assumed_node_ip {
            self.note(&format!(
                "the node's addresses are unknown: {ip} is assumed; set --node-ip"
            ))?;
        }
        if !explanation.inferred_node_ips.is_empty() {
            let ips = summary::listed(&explanation.inferred_node_ips);
            self.note(&format!(
                "the node's addresses are inferred from its rules: {ips}; set --node-ip if others \
                 matter"
            ))?;
        }
        if let Some(doubt) = summary::node_doubt(explanation) {
            writeln!(self.paths.text, "{WARNING}unsure: {doubt}{WARNING:#}")?;
        }
        if explanation.lacks_pod_address {
            self.note(
                "pods are omitted: their addresses are unknown; set --cluster-cidr or --source",
            )?;
        }
        if !explanation.unread_tables.is_empty() {
            let tables = explanation.unread_tables.join(" and ");
            writeln!(
                self.paths.text,
                "{WARNING}unsure: the rules in {tables} were not read, and may drop packets{WARNING:#}"
            )?;
        }
        for line in reason_text::conflicts(&explanation.conflicts) {
            writeln!(self.paths.text, "{WARNING}{line}{WARNING:#}")?;
        }
        for suggestion in &explanation.suggestions {
            writeln!(self.paths.text, "{WARNING}hint: {suggestion}{WARNING:#}")?;
        }
        for path in &explanation.paths {
            self.path(explanation, path)?;
        }
        Ok(())
    }

    /// Writes a note unless an earlier destination has it.
    fn note(&mut self, text: &str) -> fmt::Result {
        if self.noted.insert(text.to_owned()) {
            writeln!(self.paths.text, "{DIM}{text}{DIM:#}")?;
        }
        Ok(())
    }

    fn path(&mut self, explanation: &Explanation<'_>, path: &PacketPath<'_>) -> fmt::Result {
        let mut branches = path.branches.iter();
        let style = if summary::unclear(path).is_some() {
            WARNING
        } else if branches.all(|branch| summary::served(branch).is_some()) {
            GOOD
        } else {
            match path.branches.first().map(|branch| &branch.result) {
                Some(
                    PathResult::Passed { .. }
                    | PathResult::Unclear(_)
                    | PathResult::MissingTable(_),
                ) => WARNING,
                _ => BAD,
            }
        };
        let (clients, summary) = (
            summary::clients(&path.clients),
            summary::summary(explanation, path),
        );
        let unsure = if path.missing_table.is_none() {
            ""
        } else {
            ", as far as can be determined"
        };
        let blank = if self.is_overview { "" } else { "\n" };
        writeln!(
            self.paths.text,
            "{blank}From {clients}:\n  {style}{summary}{style:#}{unsure}"
        )?;
        // The summary names a missing jump to the Service.
        for gap in path.gaps.iter().filter(|gap| gap.concerns_marks()) {
            let consequence = gap.consequence();
            writeln!(
                self.paths.text,
                "  {BAD}broken: {gap} (nat): {consequence}{BAD:#}"
            )?;
        }
        if self.is_overview {
            return Ok(());
        }
        if path.has_hairpin {
            writeln!(
                self.paths.text,
                "  an endpoint that connects to itself (hairpin) sees the node's address"
            )?;
        }
        let most = match self.paths.detail {
            Detail::Short => SharedRules::ExceptFruitlessJumps,
            Detail::Full => SharedRules::All,
        };
        if let Some(hint) = summary::rules_of(path, most) {
            writeln!(
                self.paths.text,
                "  {DIM}{hint}; --from or --source selects others{DIM:#}"
            )?;
        }
        if let (Detail::Full, Some(rules)) = (self.paths.detail, path.traversed) {
            let traversed = traversed::text(rules);
            writeln!(self.paths.text, "  {DIM}{traversed}{DIM:#}")?;
        }
        self.paths.path(path)
    }
}

fn seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 3600 == 0 && seconds > 0 => format!("{} h", seconds / 3600),
        seconds => format!("{seconds} s"),
    }
}
