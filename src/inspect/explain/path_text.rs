//! Renders the rules and endpoints of a path, one per line, with the names of chains aligned.

use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Style};

use super::path::{Branch, PacketPath, PathResult, SeenSource, without_fruitless_jumps};
use super::{reason_text, rule_text, summary};
use crate::rules::{Share, Step, TracedTable};
use crate::ruleset::ChainKind;

/// Amount of detail in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Rules in words, and the first endpoints of many.
    Short,
    /// Also the text of every rule, and all endpoints.
    Full,
}

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default();

/// Maximum endpoints of a path in short text; with the rest of it they fit on a screen.
const MAX_ENDPOINTS: usize = 10;
/// Maximum undecided rules of a path in short text.
const MAX_UNDECIDED: usize = 5;

/// Text of paths.
pub(super) struct PathText {
    pub(super) text: String,
    pub(super) detail: Detail,
}

impl PathText {
    /// Writes the rules and branches of a path in order, then the rules that are undecided.
    pub(super) fn path(&mut self, path: &PacketPath<'_>) -> fmt::Result {
        let column = Column::new(path, self.detail);
        let fork = path.branches.first();
        let fork = fork.and_then(|branch| branch.steps.first());
        self.steps(&path.before, fork, column)?;
        if path.branches.len() > 1 {
            self.branches(path, column)?;
        }
        self.steps(&path.after, None, column)?;
        self.policies(path, column)?;
        self.undecided(path)
    }

    /// Writes a line for each step; `next` follows the last of them.
    fn steps(
        &mut self,
        steps: &[Step<'_>],
        next: Option<&Step<'_>>,
        column: Column,
    ) -> fmt::Result {
        let shown = match self.detail {
            Detail::Short => without_fruitless_jumps(steps, next),
            Detail::Full => steps.iter().collect(),
        };
        for step in shown {
            let (condition, effect) = (
                rule_text::condition(step.rule),
                rule_text::effect(step.rule),
            );
            let Column { indent, width } = column;
            let chain_name = qualified(step.table, step.chain);
            write!(self.text, "{:indent$}{chain_name:width$}  ", "")?;
            match condition.as_str() {
                "" => write!(self.text, "{effect}")?,
                condition if effect.starts_with("->") => {
                    write!(self.text, "{condition} {effect}")?;
                }
                condition => write!(self.text, "{condition}: {effect}")?,
            }
            match (self.detail, step.rule.comment()) {
                (Detail::Full, _) => {
                    write!(self.text, "\n{:indent$}  {DIM}{}{DIM:#}", "", step.rule)?;
                }
                (Detail::Short, Some(comment)) => {
                    write!(self.text, "  {DIM}{}{DIM:#}", brief(comment))?;
                }
                (Detail::Short, None) => {}
            }
            self.text.push('\n');
        }
        Ok(())
    }

    /// Writes a line for each chain whose policy drops packets, as if it were its last rule.
    fn policies(&mut self, path: &PacketPath<'_>, column: Column) -> fmt::Result {
        let Column { indent, width } = column;
        for (table, chain, share) in path.policies() {
            let chain_name = qualified(table, chain);
            write!(self.text, "{:indent$}{chain_name:width$}  policy: DROP", "")?;
            if share != Share::ALL {
                write!(self.text, ", for {share}")?;
            }
            if self.detail == Detail::Full {
                write!(self.text, "\n{:indent$}  {DIM}-P {chain} DROP{DIM:#}", "")?;
            }
            self.text.push('\n');
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
            steps.find_map(|step| rule_text::dnat_address(step.rule))
        };
        let addresses = branches.iter().filter_map(|one| Some(address(one)?.len()));
        let addresses = addresses.max().unwrap_or_default();
        let served = || branches.iter().filter_map(summary::served);
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
                self.steps(&branch.steps, None, column.deeper())?;
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
                reason_text::CUT_OFF
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
    fn new(path: &PacketPath<'_>, detail: Detail) -> Self {
        let widest = |steps: &[&Step<'_>]| {
            let names = steps.iter().map(|step| qualified(step.table, step.chain));
            names.map(|name| name.len()).max()
        };
        let policies = path.policies().into_iter();
        let policies = policies.map(|(table, chain, _)| qualified(table, chain).len());
        let shown = match detail {
            Detail::Short => path.shared_effective(),
            Detail::Full => path.before.iter().chain(&path.after).collect(),
        };
        let around = widest(&shown).max(policies.max());
        let own = |branch: &Branch<'_>| widest(&branch.steps.iter().collect::<Vec<_>>());
        let inside = match detail {
            Detail::Short => None,
            Detail::Full => path.branches.iter().filter_map(own).max(),
        };
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
    match summary::served(branch)? {
        (_, SeenSource::Client) => None,
        (_, SeenSource::Node(why)) => {
            let reason = reason_text::masquerade(why);
            Some(format!("sees the node's address: {reason}"))
        }
        (_, other @ SeenSource::Other(_)) => {
            Some(format!("sees {}", reason_text::seen_source(other)))
        }
    }
}

/// Omits a note that all comments of a chain share.
fn brief(comment: &str) -> &str {
    comment.split("; NOTE: ").next().unwrap_or(comment)
}
