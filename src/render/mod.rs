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
//! Chains are listed in [`ruleset`](crate::ruleset):
//!
//! - *Service chain* (`KUBE-SVC-*`, `KUBE-SEP-*`, ...): belongs to one service port.
//! - *Dispatch chain* (`KUBE-SERVICES`, `KUBE-NODEPORTS`, ...): holds rules of all Services.
//! - *Fixed chain* (`KUBE-FORWARD`, `KUBE-MARK-MASQ`, ...): depends on options alone.
//! - *Entry jump* ([`JUMPS`]): rule in a built-in chain that leads to a dispatch or fixed chain.
//! - *Chain declaration*: the line `:CHAIN - [0:0]`, which creates or empties a chain.
//!
//! Others:
//!
//! - *Frontend*: IP address, port and protocol, or a NodePort. If several service ports claim one,
//!   the tracker selects the winner, and only the winner gets rules for it.
//! - *Restore*: a run of `iptables-restore --noflush`.
//! - *Adopted* rules were found in the kernel at the start, and taken over instead of written.
//! - *Applied* rules were restored by this process, or adopted, and are recorded in
//!   [`AppliedState`]; *live* rules were read from the kernel.
//! - *Dirty* Services are those that the next partial payload renders again.
//! - *Leftover Service*: a made-up Service. Recorded under it are Service chains that no Service
//!   has (*stale* ones), and rules of dispatch chains that no Service has (stale or third-party).
//!   A partial payload for which it is dirty deletes them.
//!
//! Rendering cannot fail, and equal input gives equal bytes. Adoption and the comparison with live
//! rules can be given up: [`DeclineReason`].
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
    Masquerade, MasqueradePolicy, Options, PartialRestore, RenderContext, ServiceDispatch,
};
pub(crate) use options::{NodePortAddresses, RerenderReason};
pub(crate) use owner::owner;
pub use payload::{FullPayload, partial};
pub(crate) use payload::{PartialPayload, Removal};
pub use service::ServiceTotals;
pub(crate) use service::{ports, ports_over_limit};
