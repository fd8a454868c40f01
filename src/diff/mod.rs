//! How what is differs from what is desired, in terms of Services and of what traffic notices.
//!
//! Apart from [`rules`](crate::rules), which compares chains and knows no Services, and from the
//! commands, which know where the two sides come from: this decides, and writes texts.
//!
//! ```text
//!   two rulesets ─► compare ─► Review ─► text, json
//!                └► sheet ───────────► unified
//! ```
//!
//! # Invariants
//!
//! - Equal rulesets have an empty review, whatever the order of service ports in shared chains.
//! - Only rules that a restore of ours would change are compared; of all others only the number is
//!   told.
//! - A difference is cosmetic only if no packet can tell: comments, rounded chances, and chains
//!   that nothing leads to.

mod alike;
mod answerers;
mod chosen;
mod compare;
mod cosmetic;
mod edit;
mod effect;
mod effect_json;
mod effects;
mod json;
mod machine;
mod masquerade;
mod paint;
mod part;
mod phrase;
mod port_rules;
mod review;
mod set_up;
mod sheet;
mod summary;
mod text;
mod unified;

#[cfg(test)]
mod tests;

pub use alike::hint;
pub use chosen::{Chosen, LeftOut};
pub use compare::compare;
pub use edit::Edit;
pub use effect::{Answerers, Effect, Traffic};
pub use json::json;
pub use machine::{Invalid, Machine};
pub use masquerade::Clients;
pub use review::{ChainReview, PortReview, Presence, Restore, Review, Scope, Verdict};
pub use sheet::Sheet;
pub use summary::Summary;
pub use text::text;
pub use unified::unified;
