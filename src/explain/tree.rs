//! The way as a tree, for a terminal.
//!
//! Apart because it draws lines.

use std::fmt::Write as _;

use super::Explanation;
use super::sketch::{Hop, PlaceKind, sketches};

use anstyle::{AnsiColor, Style};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// A tree for each destination, with colors.
pub fn tree(explanations: &[Explanation<'_>]) -> String {
    let mut text = String::new();
    for (index, sketch) in sketches(explanations).into_iter().enumerate() {
        let blank = if index == 0 { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{blank}{BOLD}{}{BOLD:#}", sketch.title);
        let count = sketch.routes.len();
        for (number, route) in sketch.routes.iter().enumerate() {
            let (branch, below) = lines(number + 1 == count);
            let (title, note) = (&route.client.title, &route.client.note);
            let comma = if note.is_empty() { "" } else { ", " };
            let _ = writeln!(text, "{branch}{title}{comma}{note}");
            let paths: Vec<&[Hop]> = route.paths.iter().map(Vec::as_slice).collect();
            branches(&mut text, below, &paths);
        }
    }
    text
}

/// What stands before an entry, and before what is below it.
const fn lines(is_last: bool) -> (&'static str, &'static str) {
    if is_last {
        ("└── ", "    ")
    } else {
        ("├── ", "│   ")
    }
}

/// Paths that begin alike share their beginning.
fn branches(text: &mut String, before: &str, paths: &[&[Hop]]) {
    let mut groups: Vec<(&Hop, Vec<&[Hop]>)> = Vec::new();
    for path in paths {
        let Some((hop, rest)) = path.split_first() else {
            continue;
        };
        match groups.iter_mut().find(|(known, _)| *known == hop) {
            Some((_, rests)) => rests.push(rest),
            None => groups.push((hop, vec![rest])),
        }
    }
    let count = groups.len();
    for (number, (hop, rests)) in groups.into_iter().enumerate() {
        let (branch, below) = lines(number + 1 == count);
        let label = match hop.label.as_str() {
            "" => String::new(),
            label => format!("{label}: "),
        };
        let style = match hop.to.kind {
            PlaceKind::Receiver => GOOD,
            PlaceKind::Refusal => BAD,
            PlaceKind::Client | PlaceKind::Chain => Style::new(),
        };
        let note = match hop.to.note.as_str() {
            "" => String::new(),
            note => format!("  {DIM}{note}{DIM:#}"),
        };
        let title = &hop.to.title;
        let _ = writeln!(text, "{before}{branch}{label}{style}{title}{style:#}{note}");
        branches(text, &format!("{before}{below}"), &rests);
    }
}
