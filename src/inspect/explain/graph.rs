//! Graphs of packet paths, reduced to the chains that lead to a result.
//!
//! Trees, Graphviz and SVG draw the same. Chains in which no rule matched are left out.

use super::explanation::Explanation;
use super::path::{Branch, PacketPath, PathResult, SeenSource, SharedRules};
use super::reason::BlockReason;
use super::{rule_text, summary};
use crate::rules::{Step, Table, Target};

/// Paths to one destination, reduced to what is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawing {
    pub(super) title: String,
    pub(super) routes: Vec<Route>,
}

/// Drawn branches of the path of some clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) client: GraphNode,
    pub(super) branches: Vec<Vec<Hop>>,
}

/// Edge of a branch, and the node it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hop {
    /// Condition or share of the packets; empty: all.
    pub(super) label: String,
    pub(super) to: GraphNode,
}

/// Box of a graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GraphNode {
    pub(super) kind: NodeKind,
    pub(super) title: String,
    /// Second line in small type; may be empty.
    pub(super) note: String,
}

/// Style of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeKind {
    Client,
    Chain,
    /// Receiver of packets.
    Receiver,
    /// Any result without a receiver.
    Failure,
}

/// Returns a drawing for each destination.
pub(super) fn drawings(explanations: &[Explanation<'_>]) -> Vec<Drawing> {
    let of = |explanation: &Explanation<'_>| Drawing {
        title: summary::title(explanation),
        routes: explanation
            .paths
            .iter()
            .map(|path| route(explanation, path))
            .collect(),
    };
    explanations.iter().map(of).collect()
}

fn route(explanation: &Explanation<'_>, path: &PacketPath<'_>) -> Route {
    let mut branches = path.branches.iter();
    let source = branches.find_map(|branch| match &branch.result {
        PathResult::Served { source, .. } | PathResult::Passed { source, .. } => Some(*source),
        _ => None,
    });
    let source = source.map(|source| match source {
        SeenSource::Client => "source address kept".to_owned(),
        SeenSource::Node(why) => format!("masqueraded: {}", summary::masquerade(why)),
        other @ SeenSource::Other(_) => format!("source becomes {}", summary::seen_source(other)),
    });
    let branches = path.branches.iter();
    let branches: Vec<Vec<Hop>> = branches
        .map(|branch| hops(explanation, path, branch))
        .collect();
    let has_chains = branches.iter().any(|branch| branch.len() > 1);
    let rules_of = summary::rules_of(path, SharedRules::ExceptFruitlessJumps);
    let rules_of = rules_of.filter(|_| has_chains);
    let notes = summary::unclear(path).into_iter().chain(source);
    let notes: Vec<_> = notes.chain(rules_of).collect();
    Route {
        client: GraphNode {
            kind: NodeKind::Client,
            title: format!("from {}", summary::clients(&path.clients)),
            note: notes.join("; "),
        },
        branches,
    }
}

fn hops(explanation: &Explanation<'_>, path: &PacketPath<'_>, branch: &Branch<'_>) -> Vec<Hop> {
    let steps: Vec<&Step<'_>> = path.steps(branch).collect();
    let mut called = calls(&steps, &branch.result);
    let share = if path.branches.len() > 1 {
        branch.share.to_string()
    } else {
        String::new()
    };
    let mut last = result_node(explanation, path, &branch.result);
    if matches!(branch.result, PathResult::Served { .. })
        && called
            .last()
            .is_some_and(|(_, chain)| chain.starts_with("KUBE-SEP-"))
        && let Some((_, chain)) = called.pop()
    {
        last.note = chain;
    }
    let hops = called.into_iter().map(|(label, chain)| Hop {
        label,
        to: GraphNode {
            kind: NodeKind::Chain,
            title: chain,
            note: String::new(),
        },
    });
    let mut hops: Vec<Hop> = hops.collect();
    hops.push(Hop {
        label: share,
        to: last,
    });
    hops
}

/// Returns the chains that jump to one another up to the rule that decides, each with the
/// condition of the jump; if a policy decides, only the chain that has it.
fn calls(steps: &[&Step<'_>], result: &PathResult) -> Vec<(String, String)> {
    if let PathResult::Dropped(BlockReason::Policy(table, chain)) = result {
        return vec![(String::new(), format!("{table} {chain}"))];
    }
    let decides = |step: &Step<'_>| {
        matches!(
            (result, &step.rule.target),
            (PathResult::Served { .. }, Some(Target::Dnat { .. }))
                | (PathResult::Dropped(_), Some(Target::Drop))
                | (PathResult::Rejected(_), Some(Target::Reject(_)))
        )
    };
    let Some(at) = steps.iter().rposition(|step| decides(step)) else {
        return Vec::new();
    };
    let mut calls = Vec::new();
    let mut inner: Option<(Table, &str)> = None;
    for step in steps.iter().take(at + 1).rev() {
        match inner {
            None => inner = Some((step.table, step.chain)),
            Some((table, chain))
                if step.table == table && step.rule.target_chain() == Some(chain) =>
            {
                calls.push((rule_text::condition(step.rule), chain.to_owned()));
                inner = Some((table, step.chain));
            }
            Some(_) => {}
        }
    }
    if let Some((table, chain)) = inner {
        calls.push((String::new(), format!("{table} {chain}")));
    }
    calls.reverse();
    calls
}

fn result_node(
    explanation: &Explanation<'_>,
    path: &PacketPath<'_>,
    result: &PathResult,
) -> GraphNode {
    let reason = |why| summary::block_reason(explanation, path, why);
    let (kind, title, note) = match result {
        PathResult::Served { to, .. } => (NodeKind::Receiver, to.to_string(), String::new()),
        PathResult::Passed { is_local: true, .. } => {
            (NodeKind::Receiver, "this node".to_owned(), String::new())
        }
        PathResult::Passed { .. } => (
            NodeKind::Receiver,
            "routed normally".to_owned(),
            String::new(),
        ),
        PathResult::Dropped(why) => (NodeKind::Failure, "dropped".to_owned(), reason(why)),
        PathResult::Rejected(why) => (NodeKind::Failure, "rejected".to_owned(), reason(why)),
        PathResult::Unclear(why) => (NodeKind::Failure, "unclear".to_owned(), why.to_string()),
        PathResult::MissingTable(table) => {
            let why = summary::missing_table(*table);
            (NodeKind::Failure, "unclear".to_owned(), why)
        }
    };
    GraphNode { kind, title, note }
}

/// Drawing in which every node appears once, as Graphviz and SVG need it; trees do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) title: String,
    /// Nodes in the order in which packets reach them.
    pub(super) nodes: Vec<GraphNode>,
    pub(super) edges: Vec<Edge>,
}

/// Edge between two nodes, by their indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) label: String,
}

/// Returns a graph for each destination.
pub(super) fn graphs(explanations: &[Explanation<'_>]) -> Vec<Graph> {
    let mut graphs = Vec::new();
    for drawing in drawings(explanations) {
        let mut graph = Graph {
            title: drawing.title,
            nodes: Vec::new(),
            edges: Vec::new(),
        };
        for route in drawing.routes {
            let client = graph.index(route.client);
            for branch in route.branches {
                branch.into_iter().fold(client, |from, hop| {
                    let to = graph.index(hop.to);
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
    fn index(&mut self, node: GraphNode) -> usize {
        let known = self.nodes.iter().position(|known| *known == node);
        known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    fn connect(&mut self, from: usize, to: usize, label: String) {
        let edge = Edge { from, to, label };
        if !self.edges.contains(&edge) {
            self.edges.push(edge);
        }
    }

    /// Returns the length of the longest path from a client to each node. Chains do not lead to
    /// themselves, so that the lengths are finite.
    pub(super) fn layers(&self) -> Vec<usize> {
        let mut layers = vec![0_usize; self.nodes.len()];
        for _ in &self.nodes {
            for edge in &self.edges {
                let from = layers.get(edge.from).copied().unwrap_or_default();
                if let Some(to) = layers.get_mut(edge.to) {
                    *to = (*to).max(from + 1);
                }
            }
        }
        layers
    }
}
