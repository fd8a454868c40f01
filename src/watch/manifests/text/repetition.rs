//! Limit of what the aliases of a document repeat.

use serde_json::Value;

/// Maximum nodes that aliases repeat in one document: aliases of aliases make gigabytes of a few
/// lines.
pub(super) const MAX_REPEATED_NODES: usize = 1_000_000;

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
