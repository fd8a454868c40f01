//! Renders Services into payloads for the restore programs.
//!
//! The [`tracker`](crate::tracker) knows what changed, and [`sync`](crate::sync) when to restore;
//! here is only which rules Services have, and which of them the kernel has already.
//!
//! # Invariants
//!
//! - Total and deterministic: nothing here can fail, and equal input gives equal bytes.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.36)
//! KEP: kep.k8s.io/3453, kep.k8s.io/3178

mod applied;
mod fixed_chains;
mod options;
mod owner;
mod payload;
mod service;

#[cfg(test)]
mod tests;

pub use crate::ruleset::{
    JUMPS, Jump, KUBE_FIREWALL as FIREWALL, KUBE_PROXY_CANARY as CANARY, is_service_chain,
};
pub use applied::{
    Adopted, AppliedState, DeclineReason, DispatchDrift, DispatchRepair, FixedChainState,
    LiveChains, LiveRules, PayloadStats, RuleCounts, SavedServices, adopt, guarded_chains,
    localnet_drop_rule, matches_except_kubelet_rules, repair, verify_tables,
};
pub use options::{
    Comments, Counter, Counters, InvalidPackets, LARGE_CLUSTER_ENDPOINTS, LocalDetector,
    LocalhostNodePorts, Masquerade, MasqueradePolicy, NodePortAddresses, Options, PartialRestore,
    RenderContext, RerenderReason,
};
pub use owner::owner;
pub use payload::{Full, Partial, Removal, partial};
pub use service::{ServiceTotals, ports, ports_over_limit};
