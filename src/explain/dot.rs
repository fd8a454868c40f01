//! The way as Graphviz reads it.

use std::fmt::Write as _;

use super::Explanation;
use super::graph::graphs;
use super::sketch::PlaceKind;

/// A directed graph with a cluster for each destination.
pub fn dot(explanations: &[Explanation<'_>]) -> String {
    let mut text = String::from(
        "digraph explain {\n  rankdir=LR;\n  node [shape=box, fontname=monospace];\n  edge [fontname=monospace];\n",
    );
    for (number, graph) in graphs(explanations).into_iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  subgraph cluster{number} {{\n    label={};",
            quoted(&graph.title)
        );
        for (index, place) in graph.places.iter().enumerate() {
            let label = match place.note.as_str() {
                "" => place.title.clone(),
                note => format!("{}\n{note}", place.title),
            };
            let style = match place.kind {
                PlaceKind::Client => ", shape=ellipse",
                PlaceKind::Chain => "",
                PlaceKind::Receiver => ", style=filled, fillcolor=palegreen",
                PlaceKind::Refusal => ", style=filled, fillcolor=mistyrose",
            };
            let _ = writeln!(
                text,
                "    n{number}_{index} [label={}{style}];",
                quoted(&label)
            );
        }
        for arrow in &graph.arrows {
            let (from, to) = (arrow.from, arrow.to);
            let label = quoted(&arrow.label);
            let _ = writeln!(
                text,
                "    n{number}_{from} -> n{number}_{to} [label={label}];"
            );
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    text
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('\n', "\\n"))
}
