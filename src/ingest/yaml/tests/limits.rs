//! Tests of `limits`.

use super::*;

#[test]
fn long_texts_count_for_several_nodes() {
    let long = "x".repeat(10 * NODE_BYTES);
    assert_eq!(nodes(&serde_json::json!([1, "a", {"b": null}])), 5);
    assert_eq!(nodes(&serde_json::json!([long])), 12);
    assert_eq!(nodes(&serde_json::json!({long: 1})), 12);
}
