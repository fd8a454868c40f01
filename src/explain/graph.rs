//! Boxes and arrows: sketches in which every place is drawn once.
//!
//! Apart because Graphviz and SVG need places by number, and trees do not.

use super::Explanation;
use super::sketch::{Place, sketches};

/// What is drawn of one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) title: String,
    /// In the order in which they are met.
    pub(super) places: Vec<Place>,
    pub(super) arrows: Vec<Arrow>,
}

/// From one place to another, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) label: String,
}

/// A graph for each destination.
pub(super) fn graphs(explanations: &[Explanation<'_>]) -> Vec<Graph> {
    let mut graphs = Vec::new();
    for sketch in sketches(explanations) {
        let mut graph = Graph {
            title: sketch.title,
            places: Vec::new(),
            arrows: Vec::new(),
        };
        for route in sketch.routes {
            let client = graph.number(route.client);
            for path in route.paths {
                path.into_iter().fold(client, |from, hop| {
                    let to = graph.number(hop.to);
                    graph.connect(from, to, hop.label);
                    to
                });
            }
        }
        graphs.push(graph);
    }
    graphs
}

impl Graph {
    fn number(&mut self, place: Place) -> usize {
        let known = self.places.iter().position(|known| *known == place);
        known.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        })
    }

    fn connect(&mut self, from: usize, to: usize, label: String) {
        let arrow = Arrow { from, to, label };
        if !self.arrows.contains(&arrow) {
            self.arrows.push(arrow);
        }
    }

    /// How many arrows there are at most from where a place can be entered, for each place. Chains
    /// do not lead to themselves, so this ends.
    pub(super) fn layers(&self) -> Vec<usize> {
        let mut layers = vec![0_usize; self.places.len()];
        for _ in &self.places {
            for arrow in &self.arrows {
                let from = layers.get(arrow.from).copied().unwrap_or_default();
                if let Some(to) = layers.get_mut(arrow.to) {
                    *to = (*to).max(from + 1);
                }
            }
        }
        layers
    }
}
