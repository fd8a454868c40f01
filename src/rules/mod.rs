//! The language of `iptables-restore` as data; knows no Services.
//!
//! Apart so that one model of what a payload does to a rule set serves the fake kernel of the
//! tests, `diff`, `explain` and the comparison with what the kernel really holds.

mod payload;
mod table;

pub use payload::{Payload, Text};
pub use table::Table;
