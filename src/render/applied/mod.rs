//! Rules in the kernel: the applied ones, the live ones, and their comparison.

mod live;
mod observe;
mod state;

pub use live::{LiveChains, LiveRules};
pub(crate) use observe::{INCOMPLETE_SHARED_CHAINS, adopt, check_adoption, unlike_rendered};
pub(crate) use state::RenderedChains;
pub use state::{AppliedState, PayloadStats, RuleCounts};
