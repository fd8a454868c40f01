//! Renders the rules of one Service: its own chains, and its rules in the dispatch chains.
//!
//! `plan` makes the decisions that several rules of a service port depend on, and writes nothing.
//! `chains` writes the rules, each with its own conditions, most of them options.

mod chains;
mod plan;
mod service_rules;

use super::options::{Comments, Options};
use crate::model::{ServiceName, ServiceState};

pub(crate) use plan::{Disposition, Plan, count_endpoints, endpoints_upper_bound};
pub(crate) use plan::{count_ports_over_limit, ports};
pub(crate) use service_rules::{
    AppliedService, DispatchRule, RecordedChain, RuleWriter, ServiceRules, write_chain_declaration,
    write_chain_declarations, write_line,
};
pub use service_rules::{RuleCounts, ServiceTotals};

/// Replaces `rules` with those of a Service.
pub(crate) fn render(
    rules: &mut ServiceRules,
    name: &ServiceName,
    state: &ServiceState,
    options: &Options,
    comments: Comments,
) {
    rules.clear();
    plan::for_each_plan(name, state, &options.topology, |plan| {
        rules.begin_port(plan.totals(options));
        chains::write(rules, plan, options, comments);
        chains::write_nat_rules(rules, plan, options);
        chains::write_filter_rules(rules, plan, options);
    });
}

/// Replaces `rules` with those that a Service has in the filter table, which comes before nat in a
/// full payload.
///
/// [`render`] makes the plans of the Service once more. They are not kept in between, because
/// those of all Services would take more memory than the payload; planning twice costs a ninth of
/// the instructions of rendering (ten endpoints for each Service).
pub(crate) fn render_filter(
    rules: &mut ServiceRules,
    name: &ServiceName,
    state: &ServiceState,
    options: &Options,
) {
    rules.clear();
    plan::for_each_plan(name, state, &options.topology, |plan| {
        rules.begin_port(plan.totals(options));
        chains::write_filter_rules(rules, plan, options);
    });
}
