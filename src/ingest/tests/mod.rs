//! Tables for the parts of `ingest` whose cases do not fit below their code.
//!
//! Objects are written as JSON, the way they arrive, so that field names are tested, too.

#![expect(
    clippy::needless_pass_by_value,
    reason = "a table of `json!` values reads better without a `&` before each"
)]

mod bounds;
mod encodings;
mod endpoint_slice;
mod node;
mod service;

use serde::de::DeserializeOwned;

use super::Diagnostic;

fn parse<T: DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).unwrap()
}

#[track_caller]
fn assert_noted(found: &[Diagnostic], expected: &[&str]) {
    let found: Vec<String> = found
        .iter()
        .map(|diagnostic| format!("{}: {}", diagnostic.field, diagnostic.problem))
        .collect();
    assert_eq!(found, expected);
}
