//! Renders explanations as text for people: the verdict for each client, then the endpoints, or in
//! full detail the rules.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Style};

use super::client::Client;
use super::explanation::Explanation;
use super::path::{Branch, PacketPath, PathResult, SeenSource, TraversedRules};
use super::phrases;
use crate::rules::{Share, Step, TracedTable};
use crate::ruleset::ChainKind;

/// Amount of detail in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Verdicts, and the first endpoints of many.
    Short,
    /// Also every rule, all endpoints, and the number of traversed rules.
    Full,
}

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default();

/// Maximum destinations of which endpoints are shown without `--verbose`.
const MAX_DESTINATIONS: usize = 2;

/// Maximum endpoints of a path in short text; with the rest of it they fit on a screen.
const MAX_ENDPOINTS: usize = 10;
/// Maximum undecided rules of a path in short text.
const MAX_UNDECIDED: usize = 5;

pub(crate) fn text(explanations: &[Explanation<'_>], detail: Detail) -> String {
    let is_overview = explanations.len() > MAX_DESTINATIONS && detail == Detail::Short;
    let mut writer = ExplanationText {
        text: String::new(),
        detail,
        is_overview,
        noted: BTreeSet::new(),
    };
    for (index, explanation) in explanations.iter().enumerate() {
        if index > 0 {
            writer.text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writer.explanation(explanation);
    }
    if is_overview {
        writer.text.push_str(OVERVIEW_HINT);
    }
    writer.text
}

const OVERVIEW_HINT: &str =
    "\nFor endpoints and rules, add --verbose or query one of these addresses\n";

struct ExplanationText {
    text: String,
    detail: Detail,
    /// Endpoints are left out.
    is_overview: bool,
    noted: BTreeSet<String>,
}

impl ExplanationText {
    fn explanation(&mut self, explanation: &Explanation<'_>) -> fmt::Result {
        writeln!(self.text, "{BOLD}{}{BOLD:#}", phrases::title(explanation))?;
        for path in &explanation.paths {
            self.verdicts(explanation, path)?;
        }
        if let Some(time) = explanation.affinity {
            let time = match time.as_secs() {
                seconds if seconds % 3600 == 0 && seconds > 0 => format!("{} h", seconds / 3600),
                seconds => format!("{seconds} s"),
            };
            writeln!(
                self.text,
                "sessionAffinity ClientIP: a client keeps its endpoint for {time}"
            )?;
        }
        if let Some(ip) = explanation.assumed_node_ip {
            self.note(&phrases::assumed_node(ip))?;
        }
        if explanation.lacks_pod_address {
            self.note(
                "pods are omitted: their addresses are unknown; set --cluster-cidr or --source",
            )?;
        }
        if !explanation.unread_tables.is_empty() {
            let tables = phrases::joined(&explanation.unread_tables, "and");
            self.warning(&format!(
                "unsure: the rules in {tables} were not read, and may drop packets"
            ))?;
        }
        let conflicts = phrases::conflicts(&explanation.conflicts).into_iter();
        for line in conflicts.chain(phrases::stale_flows(explanation)) {
            self.warning(&line)?;
        }
        match self.detail {
            Detail::Short if self.is_overview => Ok(()),
            Detail::Short => self.endpoints(explanation),
            Detail::Full => explanation
                .paths
                .iter()
                .try_for_each(|path| self.path(path)),
        }
    }

    fn warning(&mut self, text: &str) -> fmt::Result {
        writeln!(self.text, "{WARNING}{text}{WARNING:#}")
    }

    /// Writes a note unless an earlier destination has it.
    fn note(&mut self, text: &str) -> fmt::Result {
        if self.noted.insert(text.to_owned()) {
            writeln!(self.text, "{DIM}{text}{DIM:#}")?;
        }
        Ok(())
    }

    /// Writes a line for each client of a path, and the causes that the verdict does not name.
    fn verdicts(&mut self, explanation: &Explanation<'_>, path: &PacketPath<'_>) -> fmt::Result {
        let mut branches = path.branches.iter();
        let style = if phrases::unclear(path).is_some() {
            WARNING
        } else if branches.all(|branch| phrases::served(branch).is_some()) {
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
        let summary = phrases::summary(explanation, path);
        let unsure = if path.missing_table.is_none() {
            ""
        } else {
            ", as far as can be determined"
        };
        for client in &path.clients {
            let client = phrases::client(client);
            writeln!(self.text, "  {client}: {style}{summary}{style:#}{unsure}")?;
        }
        // The summary names a missing jump to the Service.
        for gap in path.gaps.iter().filter(|gap| gap.concerns_marks()) {
            let consequence = gap.consequence();
            writeln!(
                self.text,
                "  {BAD}broken: {gap} (nat): {consequence}{BAD:#}"
            )?;
        }
        if self.is_overview {
            return Ok(());
        }
        self.undecided(path)
    }

    /// Writes the endpoints of paths with several, once for clients with the same.
    fn endpoints(&mut self, explanation: &Explanation<'_>) -> fmt::Result {
        let mut lists: Vec<(Vec<Client>, String)> = Vec::new();
        let is_received = |branch: &Branch<'_>| {
            let result = &branch.result;
            matches!(
                result,
                PathResult::Served { .. } | PathResult::Unanswered { .. }
            )
        };
        let paths = explanation.paths.iter();
        for path in paths.filter(|path| path.branches.len() > 1) {
            if !path.branches.iter().any(is_received) {
                continue;
            }
            let before = self.text.len();
            self.branches(
                path,
                Column {
                    indent: 0,
                    width: 0,
                },
            )?;
            let list = self.text.split_off(before);
            match lists.iter_mut().find(|(_, known)| *known == list) {
                Some((clients, _)) => clients.extend(path.clients.iter().cloned()),
                None => lists.push((path.clients.clone(), list)),
            }
        }
        let is_only = lists.len() == 1;
        for (clients, list) in lists {
            let of = match phrases::clients(&clients) {
                _ if is_only => String::new(),
                clients => format!(" for {clients}"),
            };
            write!(self.text, "\nEndpoints{of}:\n{list}")?;
        }
        Ok(())
    }

    fn path(&mut self, path: &PacketPath<'_>) -> fmt::Result {
        writeln!(self.text, "\nFrom {}:", phrases::clients(&path.clients))?;
        if let Some(hint) = phrases::rules_of(path) {
            writeln!(
                self.text,
                "  {DIM}{hint}; --from or --source selects others{DIM:#}"
            )?;
        }
        if let Some(rules) = path.traversed {
            let traversed = traversed(rules);
            writeln!(self.text, "  {DIM}{traversed}{DIM:#}")?;
        }
        let column = Column::new(path);
        self.steps(&path.before, column)?;
        if path.branches.len() > 1 {
            self.branches(path, column)?;
        }
        self.steps(&path.after, column)?;
        self.policies(path, column)
    }

    /// Writes the rule of each step after its chain.
    fn steps(&mut self, steps: &[Step<'_>], column: Column) -> fmt::Result {
        let Column { indent, width } = column;
        for step in steps {
            let (chain, rule) = (qualified(step.table, step.chain), step.rule);
            writeln!(self.text, "{:indent$}{chain:width$}  {rule}", "")?;
        }
        Ok(())
    }

    /// Writes a line for each chain whose policy drops packets, as if it were its last rule.
    fn policies(&mut self, path: &PacketPath<'_>, column: Column) -> fmt::Result {
        let Column { indent, width } = column;
        for (table, chain, share) in path.policies() {
            let chain = qualified(table, chain);
            write!(self.text, "{:indent$}{chain:width$}  policy DROP", "")?;
            if share != Share::ALL {
                write!(self.text, ", for {share}")?;
            }
            writeln!(self.text)?;
        }
        Ok(())
    }

    /// Writes a line for each branch, and in full detail its rules.
    fn branches(&mut self, path: &PacketPath<'_>, column: Column) -> fmt::Result {
        let branches = &path.branches;
        let most = match self.detail {
            Detail::Short if branches.len() > MAX_ENDPOINTS + 1 => MAX_ENDPOINTS,
            _ => branches.len(),
        };
        let shares = branches.iter().map(|one| one.share.to_string().len());
        let shares = shares.max().unwrap_or_default();
        let address = |branch: &Branch<'_>| {
            let mut steps = branch.steps.iter().rev();
            steps.find_map(|step| phrases::dnat_address(step.rule))
        };
        let addresses = branches.iter().filter_map(|one| Some(address(one)?.len()));
        let addresses = addresses.max().unwrap_or_default();
        let served = || branches.iter().filter_map(phrases::served);
        let mut kinds = branches
            .iter()
            .map(|branch| std::mem::discriminant(&branch.result));
        let first = kinds.next();
        let is_different = kinds.any(|kind| Some(kind) != first);
        let translated = served().filter(|(_, source)| *source != SeenSource::Client);
        let translated = translated.count();
        let is_mixed = translated > 0 && translated != branches.len();
        for branch in branches.iter().take(most) {
            let to = address(branch).unwrap_or_else(|| "not redirected".to_owned());
            let share = branch.share.to_string();
            write!(self.text, "    {share:>shares$}  {to:addresses$}")?;
            let chain = branch.steps.iter().rev().map(|step| step.chain);
            if let Some(chain) = chain
                .into_iter()
                .find(|chain| ChainKind::of(chain) == Some(ChainKind::Endpoint))
            {
                write!(self.text, "  {DIM}{chain}{DIM:#}")?;
            }
            if is_mixed && let Some(note) = source_note(branch) {
                write!(self.text, "  {note}")?;
            }
            match &branch.result {
                PathResult::Dropped(_) if is_different => self.text.push_str("  dropped"),
                PathResult::Rejected(_) if is_different => self.text.push_str("  rejected"),
                PathResult::Unanswered { loss, .. } if is_different => {
                    write!(self.text, "  reply {loss}")?;
                }
                _ => {}
            }
            self.text.push('\n');
            if self.detail == Detail::Full {
                self.steps(&branch.steps, column.deeper())?;
            }
        }
        match branches.len() - most {
            0 => Ok(()),
            more => writeln!(self.text, "    ... and {more} more; --verbose shows all"),
        }
    }

    fn undecided(&mut self, path: &PacketPath<'_>) -> fmt::Result {
        if let Some(table) = path.missing_table {
            writeln!(
                self.text,
                "  {WARNING}unsure: the {table} table is not in the dump; a rule there may drop or reject it{WARNING:#}"
            )?;
        }
        if path.is_cut_off {
            writeln!(
                self.text,
                "  {WARNING}unclear: {}{WARNING:#}",
                phrases::CUT_OFF
            )?;
        }
        if path.undecided.is_empty() {
            return Ok(());
        }
        writeln!(
            self.text,
            "  {WARNING}unclear: cannot evaluate these rules, and the result depends on them{WARNING:#}"
        )?;
        let most = match self.detail {
            Detail::Short => MAX_UNDECIDED,
            Detail::Full => path.undecided.len(),
        };
        for step in path.undecided.iter().take(most) {
            writeln!(
                self.text,
                "    {} {}: {}",
                step.table, step.chain, step.rule
            )?;
        }
        match path.undecided.len().saturating_sub(most) {
            0 => Ok(()),
            more => writeln!(self.text, "    ... and {more} more; --verbose shows all"),
        }
    }
}

fn qualified(table: TracedTable, chain: &str) -> String {
    format!("{table} {chain}")
}

/// Position and width of the names of chains.
#[derive(Debug, Clone, Copy)]
struct Column {
    indent: usize,
    width: usize,
}

impl Column {
    /// Fits the longest name that is shown of a path, so that the rules are aligned.
    fn new(path: &PacketPath<'_>) -> Self {
        let widest = |steps: &[Step<'_>]| {
            let names = steps.iter().map(|step| qualified(step.table, step.chain));
            names.map(|name| name.len()).max()
        };
        let policies = path.policies().into_iter();
        let policies = policies.map(|(table, chain, _)| qualified(table, chain).len());
        let around = widest(&path.before).max(widest(&path.after));
        let around = around.max(policies.max());
        let inside = path.branches.iter();
        let inside = inside.filter_map(|branch| widest(&branch.steps)).max();
        let inside = inside.map(|width| width + Self::DEEPER);
        Self {
            indent: 2,
            width: around.max(inside).unwrap_or_default(),
        }
    }

    /// Indentation of the rules of a branch.
    const DEEPER: usize = 4;

    fn deeper(self) -> Self {
        Self {
            indent: self.indent + Self::DEEPER,
            width: self.width.saturating_sub(Self::DEEPER),
        }
    }
}

/// Renders the source address that an endpoint sees, if it is not the client's own.
fn source_note(branch: &Branch<'_>) -> Option<String> {
    match phrases::served(branch)? {
        (_, SeenSource::Client) => None,
        (_, SeenSource::Node(why)) => {
            let reason = phrases::masquerade(why);
            Some(format!("sees the node's address: {reason}"))
        }
        (_, other @ SeenSource::Other(_)) => Some(format!("sees {}", phrases::seen_source(other))),
    }
}

/// Renders `the first packet traverses 1,234 rules, 1,198 of them in dispatch chains`.
fn traversed(traversed: TraversedRules) -> String {
    let TraversedRules {
        rules,
        dispatch_rules,
    } = traversed;
    let noun = if rules == 1 { "rule" } else { "rules" };
    let mut text = format!("the first packet traverses {} {noun}", grouped(rules));
    if dispatch_rules > 0 {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            ", {} of them in dispatch chains",
            grouped(dispatch_rules)
        );
    }
    text
}

/// Renders a number with a comma before each group of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
#[path = "tests/text.rs"]
mod tests;
