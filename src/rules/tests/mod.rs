//! Tests of parsing, applying, comparing and tracing rules.

mod host;
mod hostile;
mod matches;
mod raw;
mod replies;
mod rule;
mod ruleset;
mod share;
mod targets;
mod trace;
