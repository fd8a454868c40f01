//! Renders the rules of one Service: its own chains, and its rules in the dispatch chains.
//!
//! `plan` decides and writes nothing; the other files write and decide nothing.

mod chains;
mod dispatch;
mod plan;
mod service_rules;
mod writer;

use super::options::{Comments, Setting};
use crate::model::{ServiceName, ServiceState};

pub(crate) use plan::count_endpoints;
pub use plan::{ports, ports_over_limit};
pub use service_rules::ServiceTotals;
pub(crate) use service_rules::{Digest, DispatchKey, RenderedChain, ServiceRules};
pub(crate) use writer::{RuleWriter, write_chain_line, write_chain_lines, write_line};

/// Replaces `rules` with those of a Service.
pub(crate) fn render(
    rules: &mut ServiceRules,
    name: &ServiceName,
    state: &ServiceState,
    setting: Setting<'_>,
    comments: Comments,
) {
    rules.clear();
    plan::for_each_plan(name, state, setting.zone, |plan| {
        rules.begin_port(plan.totals());
        chains::write(rules, plan, setting.options, comments);
        dispatch::write_nat(rules, plan, setting.options);
        dispatch::write_filter(rules, plan, setting.options);
    });
}

/// Replaces `rules` with those that a Service has in the filter table, which comes before nat in a
/// full payload.
pub(crate) fn render_filter(
    rules: &mut ServiceRules,
    name: &ServiceName,
    state: &ServiceState,
    setting: Setting<'_>,
) {
    rules.clear();
    plan::for_each_plan(name, state, setting.zone, |plan| {
        rules.begin_port(plan.totals());
        dispatch::write_filter(rules, plan, setting.options);
    });
}
