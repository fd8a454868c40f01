//! Explanations as text to read.
//!
//! Apart because it decides how much is told: what all packets meet rule by rule, and of endpoints
//! a line each.

use std::fmt::{self, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::words;
use super::{End, Explanation, Fate, Sees, Way};
use crate::rules::Step;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Rules in words, and many endpoints shortened.
    Short,
    /// Also the text of every rule, and all endpoints.
    Full,
}

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ODD: Style = AnsiColor::Yellow.on_default();

/// More destinations are told of without the rules on the way, unless these are asked for.
const MOST_WAYS: usize = 2;

/// The text of explanations, with colors.
pub fn text(explanations: &[Explanation<'_>], detail: Detail) -> String {
    let is_overview = explanations.len() > MOST_WAYS && detail == Detail::Short;
    let mut pen = Pen {
        text: String::new(),
        detail,
        is_overview,
    };
    for (index, explanation) in explanations.iter().enumerate() {
        if index > 0 {
            pen.text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = pen.explanation(explanation);
    }
    if is_overview {
        pen.text
            .push_str("\nThe rules on the way: with --verbose, or for one of these addresses\n");
    }
    pen.text
}

/// `10.96.0.10:53/udp, cluster IP of kube-system/dns:dns`.
pub(super) fn title(explanation: &Explanation<'_>) -> String {
    let mut text = explanation.to.to_string();
    for subject in &explanation.to.subjects {
        let _ = write!(text, ", {} of {}", subject.kind, subject.name.name);
    }
    if explanation.to.subjects.is_empty() {
        text.push_str(", no Service's");
    }
    text
}

struct Pen {
    text: String,
    detail: Detail,
    is_overview: bool,
}

impl Pen {
    fn explanation(&mut self, explanation: &Explanation<'_>) -> fmt::Result {
        writeln!(self.text, "{BOLD}{}{BOLD:#}", title(explanation))?;
        if let Some(time) = explanation.affinity {
            let time = seconds(time);
            writeln!(
                self.text,
                "a client stays with its endpoint for {time}: sessionAffinity"
            )?;
        }
        if explanation.is_node_made_up {
            writeln!(
                self.text,
                "{DIM}the node's addresses are not known, give --node-ip; here one is made up{DIM:#}"
            )?;
        }
        for near in &explanation.near {
            writeln!(self.text, "{ODD}near: {near}{ODD:#}")?;
        }
        for way in &explanation.ways {
            self.way(explanation, way)?;
        }
        Ok(())
    }

    fn way(&mut self, explanation: &Explanation<'_>, way: &Way<'_>) -> fmt::Result {
        let style = if way.ends.iter().any(|end| words::served(end).is_none()) {
            match way.ends.first().map(|end| &end.fate) {
                Some(Fate::Passed { .. } | Fate::Unclear(_)) => ODD,
                _ => BAD,
            }
        } else {
            GOOD
        };
        let (clients, summary) = (
            words::clients(&way.clients),
            words::summary(explanation, way),
        );
        if self.is_overview {
            writeln!(self.text, "From {clients}:\n  {style}{summary}{style:#}")?;
            return Ok(());
        }
        let unsure = if way.doubts.is_empty() {
            ""
        } else {
            ", as far as can be told"
        };
        writeln!(
            self.text,
            "\nFrom {clients}:\n  {style}{summary}{style:#}{unsure}"
        )?;
        if way.has_hairpin {
            writeln!(
                self.text,
                "  an endpoint that is sent to itself sees the node's address"
            )?;
        }
        let width = width(way);
        let fork = way.ends.first().and_then(|end| end.steps.first());
        self.steps(&way.before, fork, width)?;
        if way.ends.len() > 1 {
            self.ends(way, width)?;
        }
        self.steps(&way.after, None, width)?;
        self.doubts(way)
    }

    /// A line for each step; `then` comes after the last of them.
    fn steps(&mut self, steps: &[Step<'_>], then: Option<&Step<'_>>, width: usize) -> fmt::Result {
        let told = match self.detail {
            Detail::Short => eventful(steps, then),
            Detail::Full => steps.iter().collect(),
        };
        for step in told {
            let (condition, effect) = (words::condition(step.rule), words::effect(step.rule));
            let place = format!("{} {}", step.table, step.chain);
            write!(self.text, "  {place:width$}  ")?;
            match condition.as_str() {
                "" => write!(self.text, "{effect}")?,
                condition if effect.starts_with("->") => {
                    write!(self.text, "{condition} {effect}")?;
                }
                condition => write!(self.text, "{condition}: {effect}")?,
            }
            match (self.detail, step.rule.comment()) {
                (Detail::Full, _) => write!(self.text, "\n    {DIM}{}{DIM:#}", step.rule)?,
                (Detail::Short, Some(comment)) => {
                    write!(self.text, "  {DIM}{}{DIM:#}", brief(comment))?;
                }
                (Detail::Short, None) => {}
            }
            self.text.push('\n');
        }
        Ok(())
    }

    /// A line for each choice, and in full the rules behind it.
    fn ends(&mut self, way: &Way<'_>, width: usize) -> fmt::Result {
        let most = match self.detail {
            Detail::Short if way.ends.len() > MOST_ENDPOINTS + 1 => MOST_ENDPOINTS,
            _ => way.ends.len(),
        };
        let shares = way.ends.iter().map(|end| end.share.to_string().len());
        let shares = shares.max().unwrap_or_default();
        let address = |end: &End<'_>| {
            let mut steps = end.steps.iter().rev();
            steps.find_map(|step| words::translated(step.rule))
        };
        let addresses = way.ends.iter().filter_map(|end| Some(address(end)?.len()));
        let addresses = addresses.max().unwrap_or_default();
        let differs = way.ends.iter().filter_map(words::served);
        let mut differs = differs.filter(|(_, sees)| *sees != Sees::Client);
        let is_mixed = differs.clone().count() != way.ends.len() && differs.next().is_some();
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
                _ => {}
            }
            self.text.push('\n');
            if self.detail == Detail::Full {
                self.steps(&end.steps, None, width)?;
            }
        }
        match way.ends.len() - most {
            0 => Ok(()),
            more => writeln!(self.text, "    ... and {more} more, all with --verbose"),
        }
    }

    fn doubts(&mut self, way: &Way<'_>) -> fmt::Result {
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

/// Without the jumps to chains of which no rule matched; `then` comes after the last step.
fn eventful<'s, 'a>(steps: &'s [Step<'a>], then: Option<&'s Step<'a>>) -> Vec<&'s Step<'a>> {
    let mut told: Vec<&Step<'a>> = Vec::new();
    let mut next = then;
    for step in steps.iter().rev() {
        let leads_on = |chain| next.is_some_and(|next: &Step<'_>| next.chain == chain);
        if step.rule.target_chain().is_none_or(leads_on) {
            told.push(step);
            next = Some(step);
        }
    }
    told.reverse();
    told
}

/// As many as fit on a screen beside the rest.
const MOST_ENDPOINTS: usize = 10;
const MOST_DOUBTS: usize = 5;

fn width(way: &Way<'_>) -> usize {
    let all = way.before.iter().chain(&way.after);
    let widths = all.map(|step| step.table.as_str().len() + 1 + step.chain.len());
    widths.max().unwrap_or_default()
}

/// What every comment of a chain says is not told.
fn brief(comment: &str) -> &str {
    comment.split("; NOTE: ").next().unwrap_or(comment)
}

fn seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 3600 == 0 && seconds > 0 => format!("{} h", seconds / 3600),
        seconds => format!("{seconds} s"),
    }
}
