//! Explanations as text to read.
//!
//! Apart because it decides how much is told: what all packets meet rule by rule, and of endpoints
//! a line each.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::lines::Column;
use super::words;
use super::{Alike, Explanation, Fate, Way};
use crate::inspect::catalog::FrontendConflict;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Rules in words, and many endpoints shortened.
    Short,
    /// Also the text of every rule, and all endpoints.
    Full,
}

const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
pub(super) const ODD: Style = AnsiColor::Yellow.on_default();

/// More destinations are told of without the rules on the way, unless these are asked for.
const MOST_WAYS: usize = 2;

/// Conflicts about one destination that are shown.
const MOST_CONFLICTS: usize = 4;

/// The text of explanations, with colors.
pub fn text(explanations: &[Explanation<'_>], detail: Detail) -> String {
    let is_overview = explanations.len() > MOST_WAYS && detail == Detail::Short;
    let mut pen = Pen {
        text: String::new(),
        detail,
        is_overview,
        noted: BTreeSet::new(),
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
    let endpoint_of = explanation.to.endpoint_of.iter();
    let endpoint_of: Vec<_> = endpoint_of.map(|port| &*port.name).collect();
    match endpoint_of.as_slice() {
        [] if explanation.to.subjects.is_empty() && explanation.unseen.is_empty() => {
            text.push_str(", no Service's");
        }
        [] if explanation.to.subjects.is_empty() => {
            text.push_str(", no Service's as far as the dump tells");
        }
        [] => {}
        ports => {
            let _ = write!(text, ", endpoint of {}", ports.join(", "));
        }
    }
    text
}

/// Writes an explanation; the rules on the way are written in [`lines`](super::lines).
pub(super) struct Pen {
    pub(super) text: String,
    pub(super) detail: Detail,
    is_overview: bool,
    noted: BTreeSet<String>,
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
        if let Some(ip) = explanation.stand_in {
            self.note(&format!(
                "the node's addresses are not known, give --node-ip; {ip} stands in for them"
            ))?;
        }
        if explanation.lacks_pods {
            self.note(
                "pods are left out: which addresses are theirs is not known; give --cluster-cidr \
                 or --source",
            )?;
        }
        if !explanation.unread.is_empty() {
            let tables = explanation.unread.join(" and ");
            writeln!(
                self.text,
                "{ODD}unsure: the rules in {tables} were not looked at, and may drop packets{ODD:#}"
            )?;
        }
        self.conflicts(&explanation.conflicts)?;
        for near in &explanation.near {
            writeln!(self.text, "{ODD}near: {near}{ODD:#}")?;
        }
        for way in &explanation.ways {
            self.way(explanation, way)?;
        }
        Ok(())
    }

    fn conflicts(&mut self, conflicts: &[FrontendConflict]) -> fmt::Result {
        for conflict in conflicts.iter().take(MOST_CONFLICTS) {
            let FrontendConflict {
                loser, kind, owner, ..
            } = conflict;
            writeln!(
                self.text,
                "{ODD}conflict: `{}` asks for it as {kind} and has no rules for it: Service \
                 `{owner}` comes first{ODD:#}",
                loser.name
            )?;
        }
        match conflicts.len().checked_sub(MOST_CONFLICTS) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(self.text, "{ODD}conflict: {more} more ask for it{ODD:#}"),
        }
    }

    /// What holds for many destinations is said at the first one.
    fn note(&mut self, text: &str) -> fmt::Result {
        if self.noted.insert(text.to_owned()) {
            writeln!(self.text, "{DIM}{text}{DIM:#}")?;
        }
        Ok(())
    }

    fn way(&mut self, explanation: &Explanation<'_>, way: &Way<'_>) -> fmt::Result {
        let style = if way.ends.iter().any(|end| words::served(end).is_none()) {
            match way.ends.first().map(|end| &end.fate) {
                Some(Fate::Passed { .. } | Fate::Unclear(_) | Fate::Unseen(_)) => ODD,
                _ => BAD,
            }
        } else {
            GOOD
        };
        let (clients, summary) = (
            words::clients(&way.clients),
            words::summary(explanation, way),
        );
        let unsure = if way.doubts.is_empty() && way.unseen.is_none() {
            ""
        } else {
            ", as far as can be told"
        };
        if self.is_overview {
            writeln!(
                self.text,
                "From {clients}:\n  {style}{summary}{style:#}{unsure}"
            )?;
            return Ok(());
        }
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
        let unseen = match self.detail {
            Detail::Short => Alike::ButForVisits,
            Detail::Full => Alike::Wholly,
        };
        if let Some(whose) = words::rules_of(way, unseen) {
            writeln!(
                self.text,
                "  {DIM}{whose}; --from or --source shows another's{DIM:#}"
            )?;
        }
        let column = Column::of(way, self.detail);
        let fork = way.ends.first().and_then(|end| end.steps.first());
        self.steps(&way.before, fork, column)?;
        if way.ends.len() > 1 {
            self.ends(way, column)?;
        }
        self.steps(&way.after, None, column)?;
        self.policies(way, column)?;
        self.doubts(way)
    }
}

fn seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 3600 == 0 && seconds > 0 => format!("{} h", seconds / 3600),
        seconds => format!("{seconds} s"),
    }
}
