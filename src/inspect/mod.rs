//! Reads rulesets and compares them, for people. The daemon never runs this code.

pub(crate) mod catalog;
pub(crate) mod diff;
pub(crate) mod explain;
