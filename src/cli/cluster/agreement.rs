//! Agreement of nodes: what each says of a thing, and which ones differ.
//!
//! Nodes are numbered in the order of their answers, and the nodes with one value are a set of
//! bits: 5,000 nodes that agree on 10,000 things take 6 MB.

use std::collections::BTreeMap;

use crate::cli::terminal;
use crate::text::first_of;

/// Values that nodes have for things, by a key of these.
#[derive(Debug)]
pub(in crate::cli) struct Agreement<K, V> {
    nodes: Vec<String>,
    things: BTreeMap<K, Vec<(V, NodeSet)>>,
}

impl<K, V> Default for Agreement<K, V> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            things: BTreeMap::new(),
        }
    }
}

/// Numbers of nodes, as bits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct NodeSet(Vec<u64>);

impl NodeSet {
    fn insert(&mut self, node: usize) {
        let (word, bit) = (node / 64, node % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << bit;
        }
    }

    fn contains(&self, node: usize) -> bool {
        let word = self.0.get(node / 64).copied().unwrap_or_default();
        word >> (node % 64) & 1 == 1
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// Value of a thing, and the nodes that have it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct Held<'a, V> {
    /// The value; `None`: these nodes do not have the thing.
    pub value: Option<&'a V>,
    /// Names of the nodes, sorted.
    pub nodes: Vec<&'a str>,
}

/// Maximum names in a line.
pub(in crate::cli) const MAX_NAMES: usize = 8;

/// Renders a disagreement: the number of most nodes, and the names of the others, each with what
/// `text` makes of their value beside that of most.
pub(in crate::cli) fn disagreement<V>(
    all: &[Held<'_, V>],
    text: impl Fn(&Held<'_, V>, Option<&V>) -> String,
) -> String {
    let most = all.first().and_then(|most| most.value);
    let parts = all.iter().enumerate().map(|(index, held)| {
        let nodes = match held.nodes.as_slice() {
            [node] => (*node).to_owned(),
            nodes if index == 0 => format!("{} nodes", nodes.len()),
            names => first_of(names, MAX_NAMES),
        };
        nodes + &text(held, most.filter(|_| index > 0))
    });
    parts.collect::<Vec<_>>().join("; ")
}

impl<K: Ord, V: PartialEq> Agreement<K, V> {
    pub(in crate::cli) fn add(&mut self, node: &str, things: impl IntoIterator<Item = (K, V)>) {
        let number = self.nodes.len();
        self.nodes.push(node.to_owned());
        for (key, value) in things {
            let values = self.things.entry(key).or_default();
            let held = values.iter_mut().find(|(known, _)| *known == value);
            if let Some((_, nodes)) = held {
                nodes.insert(number);
            } else {
                let mut nodes = NodeSet::default();
                nodes.insert(number);
                values.push((value, nodes));
            }
        }
    }

    pub(in crate::cli) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(in crate::cli) fn things(&self) -> usize {
        self.things.len()
    }

    /// Returns the values of all things, in the order of these.
    pub(in crate::cli) fn values(&self) -> impl Iterator<Item = &V> {
        self.things.values().flatten().map(|(value, _)| value)
    }

    /// Returns the things that nodes disagree on, each with its values: the most common one first.
    pub(in crate::cli) fn disagreements(&self) -> Vec<(&K, Vec<Held<'_, V>>)> {
        let things = self.things.iter();
        let differing = things.filter_map(|(key, values)| {
            let having: usize = values.iter().map(|(_, nodes)| nodes.len()).sum();
            let all_have_it = having == self.nodes.len();
            // Most things, for which no names are collected.
            if all_have_it && values.len() == 1 {
                return None;
            }
            let mut held: Vec<Held<'_, V>> = values
                .iter()
                .map(|(value, nodes)| self.held(Some(value), |node| nodes.contains(node)))
                .collect();
            if !all_have_it {
                let has_none = |node| values.iter().all(|(_, nodes)| !nodes.contains(node));
                held.push(self.held(None, has_none));
            }
            // Of equally common ones, the first node decides, whatever the order of answers.
            held.sort_by(|left, right| {
                let by_count = right.nodes.len().cmp(&left.nodes.len());
                by_count.then_with(|| left.nodes.cmp(&right.nodes))
            });
            Some((key, held))
        });
        differing.collect()
    }

    fn held<'a>(&'a self, value: Option<&'a V>, is_in: impl Fn(usize) -> bool) -> Held<'a, V> {
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.filter(|(number, _)| is_in(*number));
        let mut nodes: Vec<&str> = nodes.map(|(_, name)| name.as_str()).collect();
        nodes.sort_unstable();
        Held { value, nodes }
    }
}

/// Prints a line for each disagreement, and returns whether there are none. Then there is only a
/// note on stderr of what the nodes agree on.
pub(in crate::cli) fn print_disagreements(lines: &[String], agreed: &str) -> anyhow::Result<bool> {
    terminal::stdout(|out| {
        for line in lines {
            writeln!(out, "{line}")?;
        }
        Ok(())
    })?;
    if lines.is_empty() {
        terminal::note(agreed);
    }
    Ok(lines.is_empty())
}

#[cfg(test)]
#[path = "tests/agreement.rs"]
mod tests;
