//! Limits what anchors and aliases of a YAML document repeat: the number of nodes and their depth.

use serde_json::Value;

/// Maximum copied nodes in one document. Aliases to nodes with aliases can turn a few lines into
/// gigabytes, and each anchor stores a copy of its node with everything in that.
pub(super) const MAX_COPIED_NODES: usize = 1_000_000;

/// Number of copied nodes in one document.
#[derive(Debug, Default)]
pub(super) struct CopiedNodes(usize);

impl CopiedNodes {
    /// Counts the nodes of one more copy, before it is made.
    pub(super) fn add(&mut self, value: &Value) -> Result<(), &'static str> {
        self.0 += nodes(value);
        if self.0 > MAX_COPIED_NODES {
            return Err("anchors and aliases repeat too many nodes");
        }
        Ok(())
    }
}

/// Returns the number of nodes in a value. A long text counts for several, as it takes more memory.
pub(super) fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(entries) => {
            let keys: usize = entries.keys().map(|key| key.len() / NODE_BYTES).sum();
            keys + entries.values().map(nodes).sum::<usize>()
        }
        Value::String(text) => text.len() / NODE_BYTES,
        _ => 0,
    }
}

/// Maximum depth of nested nodes, as in `serde_json`: each level takes stack.
const MAX_DEPTH: usize = 128;

/// Fails below [`MAX_DEPTH`] levels.
pub(super) fn ensure_depth(levels: usize) -> Result<(), &'static str> {
    if levels > MAX_DEPTH {
        return Err("nested deeper than 128 levels");
    }
    Ok(())
}

/// Returns the number of levels of a value: 1 without nested values.
pub(super) fn depth(value: &Value) -> usize {
    let nested = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(entries) => entries.values().map(depth).max(),
        _ => None,
    };
    1 + nested.unwrap_or_default()
}

/// Bytes of a text that count as one more node: about the memory of a node.
const NODE_BYTES: usize = 64;

#[cfg(test)]
#[path = "tests/limits.rs"]
mod tests;
