//! Renders Services into inputs of `iptables-restore`.
//!
//! # Pipeline
//!
//! ```text
//! ServiceState (model)              from the tracker, which knows what changed
//!   -> Plan (service)               per service port: endpoints, frontends, chains
//!   -> ServiceRules (service)       text of the rules of one Service
//!   -> Full or Partial (payload)    all rules, or the difference to the applied state
//!   -> AppliedState (applied)       recorded rules; `sync` restores the payload
//! ```
//!
//! # Terms
//!
//! - *Service chains*, *dispatch chains*, *fixed chains* and *entry jumps* are defined in
//!   [`ruleset`](crate::ruleset). Jumps between the proxy's own chains are plain jumps.
//! - *Chain declaration*: the line `:CHAIN - [0:0]`, which creates or empties a chain.
//! - *Frontend*: IP address, port and protocol, or a NodePort. If two Services claim one, the
//!   winner gets the rules.
//! - *Applied* rules were restored by this process, or adopted, and are recorded in
//!   [`AppliedState`]; *live* rules were read from the kernel.
//! - *Leftover owner*: the made-up Service under which stale rules and chains are recorded.
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
    Adopted, AppliedState, DeclineReason, DispatchDrift, DispatchRepair, GuardedChainState,
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
