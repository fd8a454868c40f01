//! The way as a picture: columns from left to right, as far from the client as they are.
//!
//! Apart because it counts pixels. Letters are of one width, so that boxes fit without measuring.

use std::fmt::Write as _;

use super::Explanation;
use super::graph::{Arrow, Graph, graphs};
use super::sketch::{Place, PlaceKind};

/// Of a letter of 12 pixels in a monospaced font, rounded up.
const LETTER: usize = 8;
/// Of a box: two lines and some air.
const HEIGHT: usize = 40;
const GAP: usize = 16;
const MARGIN: usize = 20;
const TITLE: usize = 30;

/// The whole of an SVG file.
pub fn svg(explanations: &[Explanation<'_>]) -> String {
    let mut body = String::new();
    let (mut width, mut top) = (0, 0);
    for graph in graphs(explanations) {
        let layout = Layout::of(&graph);
        // Writing to a String cannot fail.
        let _ = write!(body, "<g transform=\"translate(0,{top})\">");
        layout.draw(&graph, &mut body);
        body.push_str("</g>\n");
        width = width
            .max(layout.width)
            .max(2 * MARGIN + graph.title.chars().count() * (LETTER + 1));
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

/// Where boxes are.
struct Layout {
    /// Of each place, in its order.
    boxes: Vec<Frame>,
    width: usize,
    height: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    left: usize,
    top: usize,
    width: usize,
}

impl Layout {
    fn of(graph: &Graph) -> Self {
        let layers = graph.layers();
        let count = layers.iter().max().map_or(0, |last| last + 1);
        let members = |layer: usize| {
            let numbered = graph.places.iter().zip(&layers).enumerate();
            numbered
                .filter(move |(_, (_, own))| **own == layer)
                .map(|(number, (place, _))| (number, place))
        };
        let tallest = (0..count).map(|layer| members(layer).count()).max();
        let tallest = tallest.unwrap_or_default();
        let mut boxes = vec![Frame::default(); graph.places.len()];
        let mut left = MARGIN;
        for layer in 0..count {
            let width = members(layer).map(|(_, place)| box_width(place)).max();
            let width = width.unwrap_or_default();
            let spare = (tallest - members(layer).count()) * (HEIGHT + GAP) / 2;
            for (row, (number, _)) in members(layer).enumerate() {
                if let Some(frame) = boxes.get_mut(number) {
                    *frame = Frame {
                        left,
                        top: TITLE + GAP + spare + row * (HEIGHT + GAP),
                        width,
                    };
                }
            }
            let into_next =
                |arrow: &&Arrow| layers.get(arrow.to).is_some_and(|to| *to == layer + 1);
            let labels = graph.arrows.iter().filter(into_next);
            let label = labels.map(|arrow| arrow.label.chars().count()).max();
            left += width + 3 * GAP + label.unwrap_or_default() * LETTER;
        }
        Self {
            boxes,
            width: left,
            height: TITLE + 2 * GAP + tallest * (HEIGHT + GAP),
        }
    }

    fn draw(&self, graph: &Graph, out: &mut String) {
        let title = escaped(&graph.title);
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{TITLE}\" font-size=\"14\" font-weight=\"bold\">{title}</text>"
        );
        for arrow in &graph.arrows {
            self.arrow(arrow, out);
        }
        for (place, frame) in graph.places.iter().zip(&self.boxes) {
            draw_box(place, *frame, out);
        }
    }

    fn arrow(&self, arrow: &Arrow, out: &mut String) {
        let (Some(from), Some(to)) = (self.boxes.get(arrow.from), self.boxes.get(arrow.to)) else {
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
        if !arrow.label.is_empty() {
            // Above the line's end, where lines that part have parted.
            let (x, y, label) = (x2 - GAP, y2 - 5, escaped(&arrow.label));
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" fill=\"#555\">{label}</text>"
            );
        }
    }
}

fn box_width(place: &Place) -> usize {
    let longest = place.title.chars().count().max(place.note.chars().count());
    longest * LETTER + GAP
}

fn draw_box(place: &Place, frame: Frame, out: &mut String) {
    let Frame { left, top, width } = frame;
    let (fill, round) = match place.kind {
        PlaceKind::Client => ("#e8f0fe", HEIGHT / 2),
        PlaceKind::Chain => ("#f5f5f5", 3),
        PlaceKind::Receiver => ("#dff5e1", 3),
        PlaceKind::Refusal => ("#fde2e1", 3),
    };
    let middle = left + width / 2;
    let _ = writeln!(
        out,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"{round}\" \
         fill=\"{fill}\" stroke=\"#555\"/>"
    );
    let first = if place.note.is_empty() { 24 } else { 17 };
    let lines = [(&place.title, first, "black"), (&place.note, 32, "#555")];
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
