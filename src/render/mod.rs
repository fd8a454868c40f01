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

pub(crate) use crate::ruleset::Jump;
pub(crate) use crate::ruleset::KUBE_FIREWALL as FIREWALL;
pub use crate::ruleset::{JUMPS, KUBE_PROXY_CANARY as CANARY, is_service_chain};
pub(crate) use applied::{
    Adopted, DeclineReason, DispatchRepair, GuardedChainState, adopt, localnet_drop_rule, repair,
    verify_tables,
};
pub use applied::{
    AppliedState, LiveChains, LiveRules, PayloadStats, RuleCounts, guarded_chains,
    matches_except_kubelet_rules,
};
pub use options::{
    Counter, Counters, InvalidPackets, LARGE_CLUSTER_ENDPOINTS, LocalDetector, LocalhostNodePorts,
    Masquerade, MasqueradePolicy, Options, PartialRestore, RenderContext,
};
pub(crate) use options::{NodePortAddresses, RerenderReason};
pub(crate) use owner::owner;
pub use payload::{Full, partial};
pub(crate) use payload::{Partial, Removal};
pub use service::ServiceTotals;
pub(crate) use service::{ports, ports_over_limit};
