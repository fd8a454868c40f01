//! Rules in the kernel: the applied ones, the live ones, and their comparison.

mod guard;
mod live;
mod observe;
mod state;

pub(crate) use guard::{
    GuardedChainState, all_fixed_chains, localnet_drop_rule, note_guarded_damage, repair_payload,
};
pub use guard::{guarded_chains, has_desired_rules};
pub use live::{LiveChains, LiveRules};
pub(crate) use observe::{INCOMPLETE_SHARED_CHAINS, adopt, check_adoption, unlike_rendered};
pub(crate) use state::RenderedChains;
pub use state::{AppliedState, PayloadStats, RuleCounts};
