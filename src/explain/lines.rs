//! The rules and endpoints on a way, a line each.
//!
//! Apart from [`text`](super::text) because this is about columns: what is told of one rule, one
//! endpoint, and how far they are indented.

use std::fmt::{self, Write as _};

use super::alike::eventful;
use super::text::{DIM, Detail, ODD, Pen};
use super::{End, Fate, Sees, Way, rule_words, words};
use crate::rules::{Share, Step, Table};

impl Pen {
    /// A line for each step; `then` comes after the last of them.
    pub(super) fn steps(
        &mut self,
        steps: &[Step<'_>],
        then: Option<&Step<'_>>,
        column: Column,
    ) -> fmt::Result {
        let told = match self.detail {
            Detail::Short => eventful(steps, then),
            Detail::Full => steps.iter().collect(),
        };
        for step in told {
            let (condition, effect) = (
                rule_words::condition(step.rule),
                rule_words::effect(step.rule),
            );
            let Column { indent, width } = column;
            let place = place(step.table, step.chain);
            write!(self.text, "{:indent$}{place:width$}  ", "")?;
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

    /// A line for each chain whose policy drops packets, as if it were its last rule.
    pub(super) fn policies(&mut self, way: &Way<'_>, column: Column) -> fmt::Result {
        let Column { indent, width } = column;
        for (table, chain, share) in way.policies() {
            let place = place(table, chain);
            write!(self.text, "{:indent$}{place:width$}  policy: DROP", "")?;
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

    /// A line for each choice, and in full the rules behind it.
    pub(super) fn ends(&mut self, way: &Way<'_>, column: Column) -> fmt::Result {
        let most = match self.detail {
            Detail::Short if way.ends.len() > MOST_ENDPOINTS + 1 => MOST_ENDPOINTS,
            _ => way.ends.len(),
        };
        let shares = way.ends.iter().map(|end| end.share.to_string().len());
        let shares = shares.max().unwrap_or_default();
        let address = |end: &End<'_>| {
            let mut steps = end.steps.iter().rev();
            steps.find_map(|step| rule_words::translated(step.rule))
        };
        let addresses = way.ends.iter().filter_map(|end| Some(address(end)?.len()));
        let addresses = addresses.max().unwrap_or_default();
        let differs = way.ends.iter().filter_map(words::served);
        let mut differs = differs.filter(|(_, sees)| *sees != Sees::Client);
        let is_mixed = differs.clone().count() != way.ends.len() && differs.next().is_some();
        let is_served = way.ends.iter().any(|end| words::served(end).is_some());
        for end in way.ends.iter().take(most) {
            let to = address(end).unwrap_or_else(|| "elsewhere".to_owned());
            let share = end.share.to_string();
            write!(self.text, "    {share:>shares$}  {to:addresses$}")?;
            let chain = end.steps.iter().rev().map(|step| step.chain);
            if let Some(chain) = chain
                .into_iter()
                .find(|chain| chain.starts_with("KUBE-SEP-"))
            {
                write!(self.text, "  {DIM}{chain}{DIM:#}")?;
            }
            match words::served(end) {
                Some((_, Sees::Node(why))) if is_mixed => {
                    write!(
                        self.text,
                        "  sees the node's address: {}",
                        words::masquerade(why)
                    )?;
                }
                Some((_, other @ Sees::Other(_))) if is_mixed => {
                    write!(self.text, "  sees {}", words::seen_by_one(other))?;
                }
                _ => {}
            }
            match &end.fate {
                Fate::Dropped(_) if is_served => self.text.push_str("  dropped"),
                Fate::Rejected(_) if is_served => self.text.push_str("  refused"),
                _ => {}
            }
            self.text.push('\n');
            if self.detail == Detail::Full {
                self.steps(&end.steps, None, column.deeper())?;
            }
        }
        match way.ends.len() - most {
            0 => Ok(()),
            more => writeln!(self.text, "    ... and {more} more, all with --verbose"),
        }
    }

    pub(super) fn doubts(&mut self, way: &Way<'_>) -> fmt::Result {
        if let Some(table) = way.unseen {
            writeln!(
                self.text,
                "  {ODD}unsure: the {table} table is not in the dump; a rule there may drop or refuse it{ODD:#}"
            )?;
        }
        if way.doubts.is_empty() {
            return Ok(());
        }
        writeln!(
            self.text,
            "  {ODD}unsure: what these rules ask is not known here; they are taken not to match{ODD:#}"
        )?;
        let most = match self.detail {
            Detail::Short => MOST_DOUBTS,
            Detail::Full => way.doubts.len(),
        };
        for doubt in way.doubts.iter().take(most) {
            writeln!(
                self.text,
                "    {} {}: {}",
                doubt.table, doubt.chain, doubt.rule
            )?;
        }
        match way.doubts.len().saturating_sub(most) {
            0 => Ok(()),
            more => writeln!(self.text, "    ... and {more} more, all with --verbose"),
        }
    }
}

/// As many as fit on a screen beside the rest.
const MOST_ENDPOINTS: usize = 10;
const MOST_DOUBTS: usize = 5;

fn place(table: Table, chain: &str) -> String {
    format!("{table} {chain}")
}

/// Where the names of chains stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    indent: usize,
    width: usize,
}

impl Column {
    /// Wide enough for all that is told of a way, so that what rules do stands below each other.
    pub(super) fn of(way: &Way<'_>, detail: Detail) -> Self {
        let widest = |steps: &[&Step<'_>]| {
            let places = steps.iter().map(|step| place(step.table, step.chain));
            places.map(|place| place.len()).max()
        };
        let policies = way.policies().into_iter();
        let policies = policies.map(|(table, chain, _)| place(table, chain).len());
        let told = match detail {
            Detail::Short => way.told(),
            Detail::Full => way.before.iter().chain(&way.after).collect(),
        };
        let around = widest(&told).max(policies.max());
        let own = |end: &End<'_>| widest(&end.steps.iter().collect::<Vec<_>>());
        let inside = match detail {
            Detail::Short => None,
            Detail::Full => way.ends.iter().filter_map(own).max(),
        };
        let inside = inside.map(|width| width + Self::DEEPER);
        Self {
            indent: 2,
            width: around.max(inside).unwrap_or_default(),
        }
    }

    /// How far what is below an endpoint is indented.
    const DEEPER: usize = 4;

    fn deeper(self) -> Self {
        Self {
            indent: self.indent + Self::DEEPER,
            width: self.width.saturating_sub(Self::DEEPER),
        }
    }
}

/// What every comment of a chain says is not told.
fn brief(comment: &str) -> &str {
    comment.split("; NOTE: ").next().unwrap_or(comment)
}
