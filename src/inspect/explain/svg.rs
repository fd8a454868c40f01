//! Renders graphs of packet paths as SVG for browsers.
//!
//! Boxes are below each other, and those that packets reach from one are further to the right, as
//! in a tree of files: a picture gets longer and not wider. The font is monospaced, so that boxes
//! fit their text without measuring it.

use std::fmt::Write as _;

use super::explanation::Explanation;
use super::graph::{Drawing, NodeKind, TreeRow, drawings};

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
    let SvgPicture {
        body,
        width,
        bottom,
    } = picture;
    let (width, height) = (width + MARGIN, bottom + MARGIN);
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
