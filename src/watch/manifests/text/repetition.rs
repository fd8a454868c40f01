//! Limits the copies that anchors and aliases of a document make.

use serde_json::Value;

/// Maximum copies of nodes in one document. Aliases that repeat aliases can turn a few lines into
/// gigabytes, and each anchor stores a copy of everything within it.
pub(super) const MAX_COPIED_NODES: usize = 1_000_000;

/// Number of copies of nodes in one document.
#[derive(Debug, Default)]
pub(super) struct CopiedNodes(usize);

impl CopiedNodes {
    /// Counts the nodes of one more copy, before it is made.
    ///
    /// # Errors
    ///
    /// There are too many, with this one.
    pub(super) fn add(&mut self, value: &Value) -> Result<(), TooManyCopies> {
        self.0 += nodes(value);
        if self.0 > MAX_COPIED_NODES {
            return Err(TooManyCopies);
        }
        Ok(())
    }
}

/// Error for a document with more than [`MAX_COPIED_NODES`].
#[derive(Debug, thiserror::Error)]
#[error("anchors and aliases repeat too many nodes")]
pub(super) struct TooManyCopies;

/// Returns the number of nodes, where long texts count for several: they take memory as well.
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

/// Bytes of a text that count as one more node: about the size of one.
const NODE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_count_for_several_nodes() {
        let long = "x".repeat(10 * NODE_BYTES);
        assert_eq!(nodes(&serde_json::json!([1, "a", {"b": null}])), 5);
        assert_eq!(nodes(&serde_json::json!([long])), 12);
        assert_eq!(nodes(&serde_json::json!({long: 1})), 12);
    }
}
