//! Rules in the kernel: the applied ones, the live ones, and their comparison.

mod guard;
mod live;
mod single_chains;
mod state;
mod whole_tables;

pub use guard::{
    GuardedChainState, guarded_chains, localnet_drop_rule, matches_except_kubelet_rules, repair,
};
pub use live::{LiveChains, LiveRules};
pub use single_chains::{DispatchDrift, DispatchRepair};
pub(crate) use state::{AppliedService, DispatchRule};
pub use state::{AppliedState, PayloadStats, RuleCounts, SavedServices};
pub use whole_tables::{Adopted, DeclineReason, adopt, verify_tables};
