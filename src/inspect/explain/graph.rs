//! Graphs of packet paths, reduced to the chains that lead to a result.
//!
//! Trees and SVG draw the same. Chains in which no rule matched are left out.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::explanation::Explanation;
use super::path::{Branch, PacketPath, PathResult, SeenSource, SharedRules};
use super::reason::BlockReason;
use super::{reason_text, rule_text, summary};
use crate::rules::{Share, Step, Target, TracedTable};
use crate::ruleset::ChainKind;

/// Paths to one destination, reduced to what is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawing {
    pub(super) title: String,
    /// Lines about Services that request the destination and do not have it.
    pub(super) conflicts: Vec<String>,
    pub(super) routes: Vec<Route>,
}

/// Drawn branches of the path of some clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) client: GraphNode,
    pub(super) branches: Vec<Vec<Hop>>,
}

/// Edge of a branch, and the node it leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
    let title = |explanation: &Explanation<'_>| {
        let title = summary::title(explanation);
        match summary::node_doubt(explanation) {
            Some(doubt) => format!("{title}; unsure: {doubt}"),
            None => title,
        }
    };
    let of = |explanation: &Explanation<'_>| Drawing {
        title: title(explanation),
        conflicts: reason_text::conflicts(&explanation.conflicts),
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
        PathResult::Served { source, .. }
        | PathResult::Unanswered { source, .. }
        | PathResult::Passed { source, .. } => Some(*source),
        _ => None,
    });
    let source = source.map(|source| match source {
        SeenSource::Client => "source address kept".to_owned(),
        SeenSource::Node(why) => format!("masqueraded: {}", reason_text::masquerade(why)),
        other @ SeenSource::Other(_) => {
            format!("source becomes {}", reason_text::seen_source(other))
        }
    });
    let branches = drawn_branches(explanation, path);
    let has_chains = branches.iter().any(|branch| branch.len() > 1);
    let rules_of = summary::rules_of(path, SharedRules::ExceptFruitlessJumps);
    let rules_of = rules_of.filter(|_| has_chains);
    let notes = summary::unclear(path).into_iter().chain(source);
    let gaps = path.gaps.iter().filter(|gap| gap.concerns_marks());
    let gaps = gaps.map(|gap| format!("broken: {gap} (nat)"));
    let notes: Vec<_> = notes.chain(gaps).chain(rules_of).collect();
    Route {
        client: GraphNode {
            kind: NodeKind::Client,
            title: format!("from {}", summary::clients(&path.clients)),
            note: notes.join("; "),
        },
        branches,
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
        let mut hops = hops(calls(before));
        let result = &branch.result;
        let mut last = result_node(explanation, path, result);
        // The box of an endpoint takes the place of the one of its chain.
        let endpoint = hops
            .pop_if(|hop| ChainKind::of(&hop.to.title) == Some(ChainKind::Endpoint))
            .map_or(String::new(), |hop| hop.to.title);
        let share_at = hops.len();
        match before
            .last()
            .and_then(|step| rule_text::dnat_address(step.rule))
        {
            Some(_) if matches!(result, PathResult::Served { .. }) => last.note = endpoint,
            Some(address) => {
                let to = GraphNode {
                    kind: NodeKind::Chain,
                    title: address,
                    note: endpoint,
                };
                hops.push(Hop {
                    label: String::new(),
                    to,
                });
                hops.extend(self::hops(deciding_calls(after, result)));
            }
            None => hops.extend(self::hops(deciding_calls(after, result))),
        }
        let share_at = match translated {
            Some(_) => share_at,
            None => hops.len(),
        };
        hops.push(Hop {
            label: String::new(),
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
            hop.label = self.share.to_string();
        }
        self.hops
    }
}

/// Returns a box for each chain, with the condition of the jump to it.
fn hops(calls: Vec<(String, String)>) -> Vec<Hop> {
    let hop = |(label, title)| Hop {
        label,
        to: GraphNode {
            kind: NodeKind::Chain,
            title,
            note: String::new(),
        },
    };
    calls.into_iter().map(hop).collect()
}

/// Returns the chains up to the rule that drops or rejects packets; if a policy does, only the
/// chain that has it.
fn deciding_calls(steps: &[&Step<'_>], result: &PathResult) -> Vec<(String, String)> {
    if let PathResult::Dropped(BlockReason::Policy(table, chain)) = result {
        return vec![(String::new(), format!("{table} {chain}"))];
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

/// Returns the chains that jump to one another up to the last step, each with the condition of the
/// jump.
fn calls(steps: &[&Step<'_>]) -> Vec<(String, String)> {
    let mut calls = Vec::new();
    let mut inner: Option<(TracedTable, &str)> = None;
    for step in steps.iter().rev() {
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
    let reason = |why| reason_text::block_reason(explanation, path, why);
    let (kind, title, note) = match result {
        PathResult::Served { to, .. } => (NodeKind::Receiver, to.to_string(), String::new()),
        PathResult::Passed { is_local, .. } => {
            let receiver = if *is_local {
                "this node"
            } else {
                "routed normally"
            };
            let why = reason_text::dead_end(explanation, path).unwrap_or_default();
            (NodeKind::Receiver, receiver.to_owned(), why)
        }
        PathResult::Unanswered {
            loss, reason: why, ..
        } => (NodeKind::Failure, format!("reply {loss}"), reason(why)),
        PathResult::Dropped(why) => (NodeKind::Failure, "dropped".to_owned(), reason(why)),
        PathResult::Rejected(why) => (NodeKind::Failure, "rejected".to_owned(), reason(why)),
        PathResult::Unclear(why) => (NodeKind::Failure, "unclear".to_owned(), why.to_string()),
        PathResult::MissingTable(table) => {
            let why = reason_text::missing_table(*table);
            (NodeKind::Failure, "unclear".to_owned(), why)
        }
    };
    GraphNode { kind, title, note }
}

/// Drawing in which every node appears once, as SVG needs it; trees do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) title: String,
    /// Lines below the title, as in [`Drawing::conflicts`].
    pub(super) conflicts: Vec<String>,
    /// Nodes in the order in which packets reach them.
    pub(super) nodes: Vec<GraphNode>,
    pub(super) edges: Vec<Edge>,
}

/// Edge between two nodes, by their indexes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
            conflicts: drawing.conflicts,
            nodes: Vec::new(),
            edges: Vec::new(),
        };
        let (mut indexes, mut known_edges) = (BTreeMap::new(), BTreeSet::new());
        let mut index = |graph: &mut Graph, node: GraphNode| {
            *indexes.entry(node).or_insert_with_key(|node| {
                graph.nodes.push(node.clone());
                graph.nodes.len() - 1
            })
        };
        for route in drawing.routes {
            let client = index(&mut graph, route.client);
            for branch in route.branches {
                branch.into_iter().fold(client, |from, hop| {
                    let to = index(&mut graph, hop.to);
                    let label = hop.label;
                    let edge = Edge { from, to, label };
                    graph.connect(&mut known_edges, edge);
                    to
                });
            }
        }
        graphs.push(graph);
    }
    graphs
}

impl Graph {
    /// Returns the title and the lines below it.
    pub(super) fn heading(&self) -> impl Iterator<Item = &str> {
        let conflicts = self.conflicts.iter().map(String::as_str);
        std::iter::once(self.title.as_str()).chain(conflicts)
    }

    fn connect(&mut self, known: &mut BTreeSet<Edge>, edge: Edge) {
        if known.insert(edge.clone()) {
            self.edges.push(edge);
        }
    }

    /// Returns the length of the longest path from a client to each node. Chains do not lead to
    /// themselves, so that the lengths are finite.
    pub(super) fn layers(&self) -> Vec<usize> {
        let mut layers = vec![0_usize; self.nodes.len()];
        for _ in &self.nodes {
            let before = layers.clone();
            for edge in &self.edges {
                let from = layers.get(edge.from).copied().unwrap_or_default();
                if let Some(to) = layers.get_mut(edge.to) {
                    *to = (*to).max(from + 1);
                }
            }
            if layers == before {
                break;
            }
        }
        layers
    }
}
