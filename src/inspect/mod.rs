//! Reads rulesets and compares them, for people. The daemon never runs this code.

pub(crate) mod catalog;
pub(crate) mod diff;
pub(crate) mod explain;

/// `apiVersion` of JSON documents: fields are added to it, and nothing else changes.
pub(crate) const API_VERSION: &str = "deltaproxy/v1";
