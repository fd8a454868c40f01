//! Tests of parsing, applying, comparing and tracing rules.

mod diff;
mod matches;
mod rule;
mod ruleset;
mod share;
mod targets;
mod trace;
