//! Rules in the kernel: the applied ones, the live ones, and their comparison.

mod guard;
mod live;
mod observe;
mod state;

pub(crate) use guard::{GuardedChainState, localnet_drop_rule, repair_payload};
pub use guard::{guarded_chains, has_desired_rules};
pub use live::{LiveChains, LiveRules};
pub(crate) use observe::{DeclineReason, adopt, services_without_chains, unlike_rendered};
pub(crate) use state::AppliedService;
pub use state::{AppliedState, PayloadStats, RuleCounts};
