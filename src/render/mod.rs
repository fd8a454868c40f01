//! From the picture of the cluster to the text of rules.
//!
//! Apart from [`tracker`](crate::tracker), which knows what changed, and from
//! [`sync`](crate::sync), which knows when: this knows what the rules are, and which of them the
//! kernel has already.
//!
//! # Invariants
//!
//! - Total and deterministic: nothing here can fail, and equal input gives equal bytes.
//! - `plan` decides and writes nothing; everything else writes and decides nothing.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.36)
//! KEP: kep.k8s.io/3453, kep.k8s.io/3178

mod adopt;
mod balance;
mod base;
mod chain;
mod chain_text;
mod changes;
mod claims;
mod cost;
mod counter;
mod dispatch;
mod edits;
mod endpoint;
mod endpoint_limit;
mod found;
mod full;
mod full_text;
mod guard;
mod jump;
mod ledger;
mod live;
mod options;
mod owner;
mod partial;
mod pen;
mod plan;
mod removal;
mod rewrite;
mod service;
mod sheet;
mod stats;
mod tally;
mod verify;

#[cfg(test)]
mod tests;

pub use adopt::{Adopted, Doubt, adopt, verify};
pub use base::{CANARY, FIREWALL};
pub use chain::{ChainKind, ServiceChain, is_service_chain};
pub use counter::{Counter, Counters};
pub use endpoint_limit::{ports, ports_over_limit};
pub use found::Found;
pub use full::Full;
pub use guard::{GuardState, guarded_chains, is_intact, localnet_guard, repair};
pub use jump::{JUMPS, Jump};
pub use ledger::{Ledger, Saved};
pub use live::Live;
pub use options::{
    Comments, InvalidPackets, LARGE_CLUSTER_ENDPOINTS, LocalDetector, LocalhostNodePorts,
    Masquerade, MasqueradePolicy, NodePortAddresses, Options, PartialRestore,
};
pub use owner::owner;
pub use partial::{Partial, partial};
pub use removal::Removal;
pub use rewrite::Rewrite;
pub use service::Setting;
pub use stats::{PayloadStats, RuleCounts};
pub use tally::Tally;
pub use verify::{DispatchDrift, DispatchRepair};
