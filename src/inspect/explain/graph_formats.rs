//! Renders graphs of packet paths for terminals (tree) and browsers (SVG).
//!
//! An SVG has columns from left to right, by the distance from the client. Its font is monospaced,
//! so that boxes fit their text without measuring it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::explanation::Explanation;
use super::graph::{Edge, Graph, GraphNode, Hop, NodeKind, drawings, graphs};
use super::path_text::WARNING;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Width of a letter in a monospaced font of 12 pixels, rounded up, in pixels.
const LETTER: usize = 8;
/// Height of a box with two lines, in pixels.
const HEIGHT: usize = 40;
/// Distance between boxes, in pixels.
const GAP: usize = 16;
/// Distance from the edge of the picture, in pixels.
const MARGIN: usize = 20;
/// Height of the title, in pixels.
const TITLE: usize = 30;
/// Height of a line below the title, in pixels.
const LINE: usize = 18;

/// Renders a tree for each destination, with colors.
pub(crate) fn tree(explanations: &[Explanation<'_>]) -> String {
    let mut text = String::new();
    for (index, drawing) in drawings(explanations).into_iter().enumerate() {
        let blank = if index == 0 { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{blank}{BOLD}{}{BOLD:#}", drawing.title);
        for line in &drawing.conflicts {
            let _ = writeln!(text, "{WARNING}{line}{WARNING:#}");
        }
        let count = drawing.routes.len();
        for (number, route) in drawing.routes.iter().enumerate() {
            let (branch, below) = tree_lines(number + 1 == count);
            let (title, note) = (&route.client.title, &route.client.note);
            let comma = if note.is_empty() { "" } else { ", " };
            let _ = writeln!(text, "{branch}{title}{comma}{note}");
            let paths: Vec<&[Hop]> = route.branches.iter().map(Vec::as_slice).collect();
            subtrees(&mut text, below, &paths);
        }
    }
    text
}

/// Returns the lines left of an entry, and left of the entries below it.
const fn tree_lines(is_last: bool) -> (&'static str, &'static str) {
    if is_last {
        ("└── ", "    ")
    } else {
        ("├── ", "│   ")
    }
}

/// Writes paths; those that begin with the same hops share them.
fn subtrees(text: &mut String, before: &str, paths: &[&[Hop]]) {
    let mut groups: Vec<(&Hop, Vec<&[Hop]>)> = Vec::new();
    let mut positions: BTreeMap<&Hop, usize> = BTreeMap::new();
    for path in paths {
        let Some((hop, rest)) = path.split_first() else {
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
        let (branch, below) = tree_lines(number + 1 == count);
        let label = match hop.label.as_str() {
            "" => String::new(),
            label => format!("{label}: "),
        };
        let style = match hop.to.kind {
            NodeKind::Receiver => GOOD,
            NodeKind::Failure => BAD,
            NodeKind::Client | NodeKind::Chain => Style::new(),
        };
        let note = match hop.to.note.as_str() {
            "" => String::new(),
            note => format!("  {DIM}{note}{DIM:#}"),
        };
        let title = &hop.to.title;
        let _ = writeln!(text, "{before}{branch}{label}{style}{title}{style:#}{note}");
        subtrees(text, &format!("{before}{below}"), &rests);
    }
}

/// Renders a complete SVG file.
pub(crate) fn svg(explanations: &[Explanation<'_>]) -> String {
    let mut body = String::new();
    let (mut width, mut top) = (0, 0);
    for graph in graphs(explanations) {
        let layout = SvgLayout::new(&graph);
        // Writing to a String cannot fail.
        let _ = write!(body, "<g transform=\"translate(0,{top})\">");
        layout.draw(&graph, &mut body);
        body.push_str("</g>\n");
        let heading = graph.heading().map(|line| line.chars().count()).max();
        width = width
            .max(layout.width)
            .max(2 * MARGIN + heading.unwrap_or_default() * (LETTER + 1));
        top += layout.height;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{top}\" \
         viewBox=\"0 0 {width} {top}\" font-family=\"monospace\" font-size=\"12\">\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" \
         markerHeight=\"8\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"#555\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// Positions of the boxes of an SVG.
struct SvgLayout {
    /// Boxes in the order of the nodes.
    boxes: Vec<SvgBox>,
    width: usize,
    height: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct SvgBox {
    left: usize,
    top: usize,
    width: usize,
}

impl SvgLayout {
    fn new(graph: &Graph) -> Self {
        let layers = graph.layers();
        let count = layers.iter().max().map_or(0, |last| last + 1);
        let members = |layer: usize| {
            let numbered = graph.nodes.iter().zip(&layers).enumerate();
            numbered
                .filter(move |(_, (_, own))| **own == layer)
                .map(|(number, (node, _))| (number, node))
        };
        let tallest = (0..count).map(|layer| members(layer).count()).max();
        let tallest = tallest.unwrap_or_default();
        let heading = TITLE + graph.conflicts.len() * LINE;
        let mut boxes = vec![SvgBox::default(); graph.nodes.len()];
        let mut left = MARGIN;
        for layer in 0..count {
            let width = members(layer).map(|(_, node)| box_width(node)).max();
            let width = width.unwrap_or_default();
            let spare = (tallest - members(layer).count()) * (HEIGHT + GAP) / 2;
            for (row, (number, _)) in members(layer).enumerate() {
                if let Some(frame) = boxes.get_mut(number) {
                    *frame = SvgBox {
                        left,
                        top: heading + GAP + spare + row * (HEIGHT + GAP),
                        width,
                    };
                }
            }
            let into_next = |edge: &&Edge| layers.get(edge.to).is_some_and(|to| *to == layer + 1);
            let labels = graph.edges.iter().filter(into_next);
            let label = labels.map(|edge| edge.label.chars().count()).max();
            left += width + 3 * GAP + label.unwrap_or_default() * LETTER;
        }
        Self {
            boxes,
            width: left,
            height: heading + 2 * GAP + tallest * (HEIGHT + GAP),
        }
    }

    fn draw(&self, graph: &Graph, out: &mut String) {
        let title = escaped(&graph.title);
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{TITLE}\" font-size=\"14\" font-weight=\"bold\">{title}</text>"
        );
        for (number, line) in graph.conflicts.iter().enumerate() {
            let (y, line) = (TITLE + (number + 1) * LINE, escaped(line));
            let _ = writeln!(
                out,
                "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"#b00\">{line}</text>"
            );
        }
        for edge in &graph.edges {
            self.edge(edge, out);
        }
        for (node, frame) in graph.nodes.iter().zip(&self.boxes) {
            draw_box(node, *frame, out);
        }
    }

    fn edge(&self, edge: &Edge, out: &mut String) {
        let (Some(from), Some(to)) = (self.boxes.get(edge.from), self.boxes.get(edge.to)) else {
            return;
        };
        let (x1, y1) = (from.left + from.width, from.top + HEIGHT / 2);
        let (x2, y2) = (to.left, to.top + HEIGHT / 2);
        let middle = usize::midpoint(x1, x2);
        let _ = writeln!(
            out,
            "<path d=\"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}\" fill=\"none\" \
             stroke=\"#555\" marker-end=\"url(#tip)\"/>"
        );
        if !edge.label.is_empty() {
            // Near the end of the line, where lines from the same box are apart.
            let (x, y, label) = (x2 - GAP, y2 - 5, escaped(&edge.label));
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" fill=\"#555\">{label}</text>"
            );
        }
    }
}

fn box_width(node: &GraphNode) -> usize {
    let longest = node.title.chars().count().max(node.note.chars().count());
    longest * LETTER + GAP
}

fn draw_box(node: &GraphNode, frame: SvgBox, out: &mut String) {
    let SvgBox { left, top, width } = frame;
    let (fill, round) = match node.kind {
        NodeKind::Client => ("#e8f0fe", HEIGHT / 2),
        NodeKind::Chain => ("#f5f5f5", 3),
        NodeKind::Receiver => ("#dff5e1", 3),
        NodeKind::Failure => ("#fde2e1", 3),
    };
    let middle = left + width / 2;
    let _ = writeln!(
        out,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"{round}\" \
         fill=\"{fill}\" stroke=\"#555\"/>"
    );
    let first = if node.note.is_empty() { 24 } else { 17 };
    let lines = [(&node.title, first, "black"), (&node.note, 32, "#555")];
    for (line, below, color) in lines {
        if !line.is_empty() {
            let (y, line) = (top + below, escaped(line));
            let _ = writeln!(
                out,
                "<text x=\"{middle}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{color}\">{line}</text>"
            );
        }
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
