//! Reads rulesets and compares them, for people. The daemon never runs this code.

pub mod catalog;
pub mod diff;
pub mod explain;
