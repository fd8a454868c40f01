//! Graphs of packet paths, reduced to the chains that lead to a result, as a tree of text and as
//! SVG for browsers.
//!
//! Chains in which no rule matched are left out. In SVG, boxes are below each other, and those that
//! packets reach from one are further to the right, as in a tree of files: a picture gets longer
//! and not wider. The font is monospaced, so that boxes fit their text without measuring it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;

use anstyle::Style;

use super::explanation::Explanation;
use super::path::{BlockReason, Branch, PacketPath, PathResult, SeenSource};
use super::phrases::{self, ResultWords};
use super::text::{BAD, BOLD, DIM, GOOD, WARNING};
use crate::rules::{Share, Step, Target, TracedTable};
use crate::ruleset::ChainKind;

/// Paths to one destination, reduced to what is drawn.
#[derive(Debug)]
pub(super) struct Drawing {
    pub(super) title: String,
    /// Lines below the title: what is unsure, and Services that request the destination and do not
    /// have it.
    pub(super) notes: Vec<String>,
    /// Boxes from top to bottom; branches that begin with the same hops share them.
    pub(super) rows: Vec<TreeRow>,
}

/// Edge of a branch, and the node it leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Hop {
    /// Share of the packets, before the title of the node; empty: all.
    share: String,
    to: GraphNode,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GraphNode {
    pub(super) kind: NodeKind,
    pub(super) title: String,
    /// Second line in small type; may be empty.
    pub(super) note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeKind {
    Client,
    Chain,
    Receiver,
    /// Any result without a receiver.
    Failure,
}

pub(super) fn drawings(explanations: &[Explanation<'_>]) -> Vec<Drawing> {
    let drawing = |explanation: &Explanation<'_>| {
        let assumed = explanation.assumed_node_ip.map(phrases::assumed_node);
        let conflicts = phrases::conflicts(&explanation.conflicts);
        Drawing {
            title: phrases::title(explanation),
            notes: assumed.into_iter().chain(conflicts).collect(),
            rows: rows(explanation),
        }
    };
    explanations.iter().map(drawing).collect()
}

fn rows(explanation: &Explanation<'_>) -> Vec<TreeRow> {
    let mut rows = Vec::new();
    let count = explanation.paths.len();
    for (number, path) in explanation.paths.iter().enumerate() {
        let is_last = vec![number + 1 == count];
        let branches = drawn_branches(explanation, path);
        rows.push(TreeRow {
            is_last: is_last.clone(),
            share: String::new(),
            node: client_node(path, branches.iter().any(|branch| branch.len() > 1)),
        });
        let branches: Vec<&[Hop]> = branches.iter().map(Vec::as_slice).collect();
        add_rows(&mut rows, &is_last, &branches);
    }
    rows
}

fn client_node(path: &PacketPath<'_>, has_chains: bool) -> GraphNode {
    let mut branches = path.branches.iter();
    let source = branches.find_map(|branch| match &branch.result {
        PathResult::Served { source, .. }
        | PathResult::Unanswered { source, .. }
        | PathResult::Passed { source, .. } => Some(*source),
        _ => None,
    });
    let source = source.map(|source| match source {
        SeenSource::Client => "source address kept".to_owned(),
        SeenSource::Node(why) => format!("masqueraded: {}", phrases::masquerade(why)),
        other @ SeenSource::Other(_) => {
            format!("source becomes {}", phrases::seen_source(other))
        }
    });
    let rules_of = phrases::rules_of(path);
    let rules_of = rules_of.filter(|_| has_chains);
    let gaps = path.gaps.iter().filter(|gap| gap.concerns_marks());
    let gaps = gaps.map(|gap| format!("broken: {gap} (nat)"));
    let notes = phrases::unclear(path).into_iter().chain(source);
    let notes: Vec<_> = notes.chain(gaps).chain(rules_of).collect();
    GraphNode {
        kind: NodeKind::Client,
        title: format!("from {}", phrases::clients(&path.clients)),
        note: notes.join("; "),
    }
}

/// Returns the hops of all branches; those that are drawn alike are one.
fn drawn_branches(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> Vec<Vec<Hop>> {
    let mut drawn: Vec<DrawnBranch> = Vec::new();
    // A Service may have thousands of endpoints.
    let mut positions: BTreeMap<(usize, Vec<Hop>), usize> = BTreeMap::new();
    for branch in &path.branches {
        let branch = DrawnBranch::new(explanation, path, branch);
        match positions.entry((branch.share_at, branch.hops.clone())) {
            Entry::Occupied(known) => {
                if let Some(known) = drawn.get_mut(*known.get()) {
                    known.share = known.share.plus(branch.share);
                }
            }
            Entry::Vacant(new) => {
                new.insert(drawn.len());
                drawn.push(branch);
            }
        }
    }
    drawn.into_iter().map(DrawnBranch::into_hops).collect()
}

/// Branch in which the share is not written yet, so that equal branches can be added up.
struct DrawnBranch {
    share: Share,
    /// Index of the hop at which the share is written.
    share_at: usize,
    hops: Vec<Hop>,
}

impl DrawnBranch {
    fn new(explanation: &Explanation<'_>, path: &PacketPath<'_>, branch: &Branch<'_>) -> Self {
        let steps: Vec<&Step<'_>> = path.steps(branch).collect();
        let is_dnat = |step: &&Step<'_>| matches!(step.rule.target, Some(Target::Dnat { .. }));
        let translated = steps.iter().rposition(is_dnat);
        let (before, after) = steps.split_at(translated.map_or(0, |at| at + 1));
        let mut hops = calls(before);
        let result = &branch.result;
        let mut last = result_node(explanation, path, result);
        // The box of an endpoint takes the place of the one of its chain.
        let endpoint = hops
            .pop_if(|hop| ChainKind::of(&hop.to.title) == Some(ChainKind::Endpoint))
            .map_or(String::new(), |hop| hop.to.title);
        let share_at = hops.len();
        match before
            .last()
            .and_then(|step| phrases::dnat_address(step.rule))
        {
            Some(_) if matches!(result, PathResult::Served { .. }) => last.note = endpoint,
            Some(address) => {
                let mut hop = Hop::to_chain(address);
                hop.to.note = endpoint;
                hops.push(hop);
                hops.extend(deciding_calls(after, result));
            }
            None => hops.extend(deciding_calls(after, result)),
        }
        let share_at = match translated {
            Some(_) => share_at,
            None => hops.len(),
        };
        hops.push(Hop {
            share: String::new(),
            to: last,
        });
        Self {
            share: branch.share,
            share_at,
            hops,
        }
    }

    /// Returns the hops, with the share at its place unless it is all packets.
    fn into_hops(mut self) -> Vec<Hop> {
        if self.share != Share::ALL
            && let Some(hop) = self.hops.get_mut(self.share_at)
        {
            hop.share = format!("{}: ", self.share);
        }
        self.hops
    }
}

impl Hop {
    /// Returns the hop of all packets to a chain.
    const fn to_chain(title: String) -> Self {
        Self {
            share: String::new(),
            to: GraphNode {
                kind: NodeKind::Chain,
                title,
                note: String::new(),
            },
        }
    }
}

/// Returns the chains up to the rule that drops or rejects packets; if a policy does, only the
/// chain that has it.
fn deciding_calls(steps: &[&Step<'_>], result: &PathResult) -> Vec<Hop> {
    if let PathResult::Dropped(BlockReason::Policy(table, chain)) = result {
        return vec![Hop::to_chain(format!("{table} {chain}"))];
    }
    let decides = |step: &&Step<'_>| {
        matches!(
            (result, &step.rule.target),
            (PathResult::Dropped(_), Some(Target::Drop))
                | (PathResult::Rejected(_), Some(Target::Reject(_)))
        )
    };
    let at = steps.iter().rposition(decides);
    calls(steps.split_at(at.map_or(0, |at| at + 1)).0)
}

/// Returns the chains that jump to one another up to the last step.
fn calls(steps: &[&Step<'_>]) -> Vec<Hop> {
    let mut calls = Vec::new();
    let mut inner: Option<(TracedTable, &str)> = None;
    for step in steps.iter().rev() {
        match inner {
            None => inner = Some((step.table, step.chain)),
            Some((table, chain))
                if step.table == table && step.rule.target_chain() == Some(chain) =>
            {
                calls.push(Hop::to_chain(chain.to_owned()));
                inner = Some((table, step.chain));
            }
            Some(_) => {}
        }
    }
    if let Some((table, chain)) = inner {
        calls.push(Hop::to_chain(format!("{table} {chain}")));
    }
    calls.reverse();
    calls
}

fn result_node(
    explanation: &Explanation<'_>,
    path: &PacketPath<'_>,
    result: &PathResult,
) -> GraphNode {
    let words = ResultWords::of(explanation, path, result);
    let (kind, title) = match result {
        PathResult::Served { to, .. } => (NodeKind::Receiver, to.to_string()),
        PathResult::Passed { is_local: true, .. } => (NodeKind::Receiver, "this node".to_owned()),
        PathResult::Passed { .. } => (NodeKind::Receiver, "routed normally".to_owned()),
        _ => (NodeKind::Failure, words.result.to_owned()),
    };
    GraphNode {
        kind,
        title,
        note: words.reason.unwrap_or_default(),
    }
}

/// Box of a tree, with its place.
#[derive(Debug)]
pub(super) struct TreeRow {
    /// For the boxes that lead to it and for itself: it is the last one below the box before it.
    is_last: Vec<bool>,
    share: String,
    pub(super) node: GraphNode,
}

impl TreeRow {
    /// Returns the number of boxes that lead to it.
    pub(super) const fn depth(&self) -> usize {
        self.is_last.len().saturating_sub(1)
    }

    /// Returns its title after the share of the packets.
    pub(super) fn title(&self) -> String {
        format!("{}{}", self.share, self.node.title)
    }

    fn lines(&self) -> String {
        let Some((is_last, before)) = self.is_last.split_last() else {
            return String::new();
        };
        let before = before
            .iter()
            .map(|is_last| if *is_last { "    " } else { "│   " });
        let own = if *is_last { "└── " } else { "├── " };
        before.chain([own]).collect()
    }
}

fn add_rows(rows: &mut Vec<TreeRow>, above: &[bool], branches: &[&[Hop]]) {
    let mut groups: Vec<(&Hop, Vec<&[Hop]>)> = Vec::new();
    let mut positions: BTreeMap<&Hop, usize> = BTreeMap::new();
    for branch in branches {
        let Some((hop, rest)) = branch.split_first() else {
            continue;
        };
        let position = *positions.entry(hop).or_insert(groups.len());
        match groups.get_mut(position) {
            Some((_, rests)) => rests.push(rest),
            None => groups.push((hop, vec![rest])),
        }
    }
    let count = groups.len();
    for (number, (hop, rests)) in groups.into_iter().enumerate() {
        let is_last = [above, &[number + 1 == count]].concat();
        rows.push(TreeRow {
            is_last: is_last.clone(),
            share: hop.share.clone(),
            node: hop.to.clone(),
        });
        add_rows(rows, &is_last, &rests);
    }
}

/// Renders a tree for each destination, with colors.
pub(crate) fn tree(explanations: &[Explanation<'_>]) -> String {
    let mut text = String::new();
    for (index, drawing) in drawings(explanations).iter().enumerate() {
        let blank = if index == 0 { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{blank}{BOLD}{}{BOLD:#}", drawing.title);
        for line in &drawing.notes {
            let _ = writeln!(text, "{WARNING}{line}{WARNING:#}");
        }
        for row in &drawing.rows {
            let style = match row.node.kind {
                NodeKind::Receiver => GOOD,
                NodeKind::Failure => BAD,
                NodeKind::Client | NodeKind::Chain => Style::new(),
            };
            let note = match (row.node.note.as_str(), row.node.kind) {
                ("", _) => String::new(),
                (note, NodeKind::Client) => format!(", {note}"),
                (note, _) => format!("  {DIM}{note}{DIM:#}"),
            };
            let (lines, share, title) = (row.lines(), &row.share, &row.node.title);
            let _ = writeln!(text, "{lines}{share}{style}{title}{style:#}{note}");
        }
    }
    text
}

/// Maximum width of the picture, in pixels: what a page of documentation shows without scrolling.
const MAX_WIDTH: usize = 1200;
/// Width of a letter in a monospaced font of 12 pixels, rounded up, in pixels.
const LETTER: usize = 8;
/// Height of a line, in pixels.
const LINE: usize = 16;
/// Distance between boxes, and between text and the frame of its box, in pixels.
const GAP: usize = 8;
/// Distance from the edge of the picture, in pixels.
const MARGIN: usize = 20;
/// Distance between the left edges of a box and of those below it, in pixels.
const INDENT: usize = 28;
/// Number of boxes below each other that are indented; deeper ones keep half of the width.
const MAX_INDENTED: usize = 20;

/// Colors for light and for dark pages.
const STYLE: &str = "\
<style>
text{font:12px monospace;fill:#1f2328}.title{font-weight:bold}.note{fill:#59636e}.warning{fill:#b00}
.page{fill:#fff}.box{stroke:#59636e}path{stroke:#59636e;fill:none}
.client{fill:#e8f0fe}.chain{fill:#f5f5f5}.receiver{fill:#dff5e1}.failure{fill:#fde2e1}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.note{fill:#9ea7b3}.warning{fill:#ff8f8f}.page{fill:#0d1117}
.client{fill:#1c2f4d}.chain{fill:#21262d}.receiver{fill:#12381f}.failure{fill:#4c1d1f}
}
</style>
";

/// Renders a complete SVG file.
pub(crate) fn svg(explanations: &[Explanation<'_>]) -> String {
    let mut picture = SvgPicture {
        body: String::new(),
        width: 0,
        bottom: MARGIN,
    };
    for drawing in drawings(explanations) {
        picture.draw(&drawing);
    }
    let (width, height) = (picture.width + MARGIN, picture.bottom + MARGIN);
    let body = picture.body;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n{STYLE}\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n"
    )
}

/// Picture to which boxes are added at the bottom.
struct SvgPicture {
    body: String,
    /// Right edge of the widest part.
    width: usize,
    /// Lower edge of the last part.
    bottom: usize,
}

impl SvgPicture {
    fn draw(&mut self, drawing: &Drawing) {
        self.text("title", MARGIN, &drawing.title);
        for note in &drawing.notes {
            self.text("warning", MARGIN, note);
        }
        // Where the lines to the boxes below each box begin, from the client to the last box.
        let mut parents: Vec<(usize, usize)> = Vec::new();
        for row in &drawing.rows {
            parents.truncate(row.depth());
            self.tree_row(row, &mut parents);
        }
        self.bottom += MARGIN;
    }

    /// Writes a box, and the line to it from the last of `parents`, to which it is added.
    fn tree_row(&mut self, row: &TreeRow, parents: &mut Vec<(usize, usize)>) {
        let left = MARGIN + row.depth().min(MAX_INDENTED) * INDENT;
        let top = self.bottom + if parents.is_empty() { 2 * GAP } else { GAP };
        if let Some((x, y)) = parents.last() {
            let middle = top + usize::midpoint(LINE, GAP);
            // Writing to a String cannot fail.
            let _ = writeln!(self.body, "<path d=\"M{x},{y}V{middle}H{left}\"/>");
        }
        let class = match row.node.kind {
            NodeKind::Client => "client",
            NodeKind::Chain => "chain",
            NodeKind::Receiver => "receiver",
            NodeKind::Failure => "failure",
        };
        // The frame is behind the text, whose size is known later.
        let before = std::mem::take(&mut self.body);
        self.bottom = top;
        let title = self.text("", left + GAP, &row.title());
        let note = self.text("note", left + GAP, &row.node.note);
        self.bottom += GAP;
        let text = std::mem::replace(&mut self.body, before);
        let (width, height) = (title.max(note) + 2 * GAP, self.bottom - top);
        self.width = self.width.max(left + width);
        let _ = write!(
            self.body,
            "<rect class=\"box {class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" \
             height=\"{height}\" rx=\"3\"/>\n{text}"
        );
        parents.push((left + INDENT / 2, self.bottom));
    }

    /// Writes text in lines that fit the picture; returns the width of the longest.
    fn text(&mut self, class: &str, left: usize, text: &str) -> usize {
        let most = (MAX_WIDTH - MARGIN - GAP - left) / LETTER;
        let mut longest = 0;
        for line in wrapped(text, most) {
            self.bottom += LINE;
            longest = longest.max(line.chars().count() * LETTER);
            let (y, line) = (self.bottom, escaped(&line));
            let class = match class {
                "" => String::new(),
                class => format!(" class=\"{class}\""),
            };
            let _ = writeln!(
                self.body,
                "<text{class} x=\"{left}\" y=\"{y}\">{line}</text>"
            );
        }
        self.width = self.width.max(left + longest);
        longest
    }
}

/// Breaks text at blanks into lines of at most `most` letters, and a longer word where it has to.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + length <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => {
                let letters: Vec<char> = word.chars().collect();
                lines.extend(letters.chunks(most.max(1)).map(String::from_iter));
            }
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
#[path = "tests/svg.rs"]
mod tests;
