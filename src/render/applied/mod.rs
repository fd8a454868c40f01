//! Rules in the kernel: the applied ones, the live ones, and their comparison.

mod guard;
mod live;
mod single_chains;
mod state;
mod trees;
mod unmatched_rules;
mod whole_tables;

pub(crate) use guard::{GuardedChainState, localnet_drop_rule, repair_payload};
pub use guard::{guarded_chains, has_desired_rules};
pub use live::{LiveChains, LiveRules};
pub(crate) use single_chains::DispatchRepair;
pub(crate) use state::AppliedService;
pub use state::{AppliedState, PayloadStats, RuleCounts};
pub(crate) use whole_tables::{
    ComparedTables, DeclineReason, adopt, services_without_chains, unlike_rendered, verify_tables,
};
