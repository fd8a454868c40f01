//! Renders Services into inputs of `iptables-restore`.
//!
//! # Pipeline
//!
//! ```text
//! ServiceState (model)              from the tracker, which knows what changed
//!   -> Plan (service)               per service port: endpoints, frontends, chains
//!   -> ServiceRules (service)       text of the rules of one Service
//!   -> FullPayload, PartialPayload  all rules, or the difference to the applied state
//!   -> AppliedState (applied)       recorded rules; `sync` restores the payload
//! ```
//!
//! # Terms
//!
//! Chains, which [`ruleset`](crate::ruleset) lists:
//!
//! - *Service*, *dispatch*, *fixed* and *tree chain*, *canary*, *entry jump* ([`JUMPS`]), *shared
//!   chain*: see there. A dispatch chain is *flat*, or the *root* of tree chains (`tree`).
//! - *Guarded chain*: fixed chain, canary, or built-in chain with entry jumps.
//! - *Chain declaration*: the line `:CHAIN - [0:0]`, which creates or empties a chain.
//! - *Rule group*: the rules of one service port in one dispatch chain.
//! - *Unprintable* rule: only `nft` knows its kind, so iptables binaries fail to list its chain.
//!
//! Others:
//!
//! - *Frontend*: IP address, port and protocol, or a NodePort. If several service ports claim one,
//!   the tracker selects the winner, and only the winner gets rules for it.
//! - *Restore*: a run of `iptables-restore --noflush`.
//! - *Adopted* rules were found in the kernel at the start, and taken over instead of written.
//! - *Applied* rules were restored by this process, or adopted, and are recorded in
//!   [`AppliedState`]; *live* rules were read from the kernel; *desired* ones follow from the
//!   input.
//! - *Dirty* Services are those that the next partial payload renders again.
//! - *Stale* chains and rules are of Services that do not exist anymore; *third-party* ones are of
//!   other programs.
//! - *Leftover Service*: a name that no Service has. Stale Service chains, and stale or
//!   third-party rules of flat chains, are recorded under it; a partial payload deletes them if it
//!   is dirty.
//!
//! Rendering cannot fail, and equal input gives equal bytes. Adoption and the comparison with live
//! rules can be declined: [`DeclineReason`].
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
mod tree;

#[cfg(test)]
mod tests;

pub(crate) use crate::ruleset::Jump;

pub use crate::ruleset::{JUMPS, inline_trees, is_service_chain};
pub use applied::{
    AppliedState, LiveChains, LiveRules, PayloadStats, RuleCounts, guarded_chains,
    matches_except_kubelet_rules,
};
pub(crate) use applied::{
    ComparedTables, DeclineReason, DispatchRepair, GuardedChainState, adopt, localnet_drop_rule,
    repair_payload, verify_tables,
};
pub use options::{
    Counter, Counters, InvalidPackets, LARGE_CLUSTER_ENDPOINTS, LocalDetector, LocalhostNodePorts,
    Masquerade, MasqueradePolicy, Options, PartialRestore, RenderContext,
};
pub(crate) use options::{NodePortAddresses, RerenderReason};
pub(crate) use owner::owner;
pub use payload::{FullPayload, partial_payload};
pub(crate) use payload::{PartialPayload, Removal};
pub use service::ServiceTotals;
pub(crate) use service::{ports, ports_over_limit};
pub use tree::TreeThresholds;
