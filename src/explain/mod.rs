//! What becomes of packets to an address or a Service, and why.
//!
//! Apart from [`rules`](crate::rules), whose tracer follows packets and knows no Services, and from
//! [`catalog`](crate::inspect::catalog), which knows Services and no packets: here each says why of
//! the other. Deciding comes first and is data; text, trees, pictures and JSON are written from it.
//!
//! ```text
//!   Question ─► find ─► Destination ─┐
//!                                    ├─► follow: trace, reason ─► Way ─► Explanation ─┐
//!   Wanted ───► client ─► Client ────┘                            text, json, graph ◄──┘
//! ```
//!
//! # Invariants
//!
//! - Whoever wrote the rules is explained alike: kube-proxy of any release, or ours.
//! - What cannot be decided is passed by and named, never guessed in silence.

mod alike;
mod client;
mod destination;
mod detector;
mod dot;
mod explanation;
mod find;
mod follow;
mod graph;
mod index;
mod json;
mod lines;
mod near;
mod node;
mod question;
mod reason;
mod rule_words;
mod sketch;
mod svg;
mod text;
mod tree;
mod unruled;
mod way;
mod words;

#[cfg(test)]
mod tests;

pub use alike::Alike;
pub use client::{Client, Wanted, Who};
pub use destination::{Destination, Subject};
pub use dot::dot;
pub use explanation::{Explanation, explain};
pub use find::NotFound;
pub use json::json;
pub use near::Near;
pub use node::Node;
pub use question::{NoQuestion, NotThere, Question};
pub use reason::{Masquerade, Refusal};
pub use svg::svg;
pub use text::{Detail, text};
pub use tree::tree;
pub use unruled::{Unanswered, Unruled, WithoutRules, unanswered};
pub use way::{End, Fate, Reach, Sees, Way};
