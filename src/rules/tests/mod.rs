//! Tests of the rules that are too long to stand beside the code.
//!
//! Apart as a folder so that each file mirrors one file of the module.

mod diff;
mod rule;
mod ruleset;
mod share;
mod trace;
