//! The language of `iptables-restore` as data; knows no Services.
//!
//! Apart so that one model of what a payload does to a rule set serves the fake kernel of the
//! tests, `diff`, `explain` and the comparison with what the kernel really holds.

mod backend;
mod payload;
mod rule;
mod table;

pub use backend::Backend;
pub use payload::{Payload, Text};
pub use rule::Rule;
pub use table::Table;
