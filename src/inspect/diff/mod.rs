//! Compares live rules with desired ones, in terms of Services and of effects on traffic.
//!
//! Pure: the command `diff` knows where the two sides come from. *Live* is the left side: rules in
//! the kernel, in a dump, or rendered from older objects. *Desired* is the right side: rules
//! rendered from the objects as they should be.
//!
//! ```text
//!   live, desired ─► compare ─► Review ─► text, json, markdown
//!                └─► RulesetText ───────► unified
//! ```
//!
//! # Invariants
//!
//! - Equal rulesets have an empty review, whatever the order of service ports in dispatch chains.
//! - Only rules that a restore by the proxy would change are compared. Third-party rules are
//!   counted.
//! - A difference is cosmetic only if it affects no packet: comments, rounded probabilities, and
//!   chains that no jump leads to.

mod compare;
mod effects;
mod json;
mod review;
mod text;
mod unified;

#[cfg(test)]
mod tests;

pub use compare::compare;
pub use json::json;
pub(crate) use review::PortSelection;
pub use review::{ManifestFacts, PortChange, Review};
pub use text::text;
pub(crate) use text::{hidden_objects, markdown, summary};
pub use unified::{RulesetText, unified};
