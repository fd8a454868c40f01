//! Rules that the kernel holds: those that were applied, those that are read from it, and their
//! comparison.

mod adoption;
mod guard;
mod live;
mod state;
mod verify;

pub use adoption::{Adopted, DeclineReason, adopt, verify};
pub use guard::{GuardState, guarded_chains, is_intact, localnet_guard, repair};
pub use live::{Live, LiveRules};
pub(crate) use state::{AppliedService, DispatchRule};
pub use state::{AppliedState, PayloadStats, RuleCounts, SavedServices};
pub use verify::{DispatchDrift, DispatchRepair};
