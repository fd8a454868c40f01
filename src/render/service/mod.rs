//! Renders the rules of one Service: its own chains, and its rules in the dispatch chains.
//!
//! `plan` makes the decisions that several rules of a service port depend on, and writes nothing.
//! `chains` writes the rules, each with its own conditions, most of them options.

mod chains;
mod plan;
mod service_rules;

pub(crate) use chains::{render, render_filter};
pub(crate) use plan::{Disposition, Plan, count_endpoints, endpoints_upper_bound};
pub(crate) use plan::{count_ports_over_limit, ports};
pub(crate) use service_rules::{
    AppliedService, DispatchRule, RecordedChain, RuleWriter, ServiceRules, write_chain_declaration,
    write_chain_declarations, write_line,
};
pub use service_rules::{RuleCounts, ServiceTotals};
