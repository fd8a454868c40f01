//! Renders Services into inputs of `iptables-restore`.
//!
//! # Pipeline
//!
//! ```text
//! ServiceState (model)              from the tracker, which knows what changed
//!   -> Plan (service)               per service port: endpoints, frontends, chains
//!   -> ServiceRules (service)       text of the rules of one Service
//!   -> FullPayload, PartialPayload  all rules, or the difference to the record
//!   -> sync                         restores the payload
//!   -> AppliedState (applied)       record of the rules in the kernel, for the next difference
//! ```
//!
//! # Terms
//!
//! [`ruleset`](crate::ruleset) lists the chains. *A proxy* is this program or kube-proxy.
//!
//! - *Service chain*: chain of one service port, `KUBE-SVC-`, `KUBE-SVL-`, `KUBE-EXT-`, `KUBE-FW-`
//!   or `KUBE-SEP-` and a hash.
//! - *Dispatch chain*: has rules of all Services, such as `KUBE-SERVICES` and `KUBE-NODEPORTS`. It
//!   is *flat*, or the *root* of *tree chains* (`tree`), which hold its rules.
//! - *Fixed chain*: has rules that depend on options alone, such as `KUBE-POSTROUTING`.
//! - *Shared chain*: dispatch or fixed chain. *Entry jump*: jump to one from a built-in chain.
//! - *Flush*: removal of all rules of a table. *Canary*: empty chain whose absence shows a flush
//!   that removed the chains as well, such as `nft flush ruleset`.
//! - *Guarded chain*: fixed chain, canary, or built-in chain with entry jumps.
//! - *Chain declaration*: the line `:CHAIN - [0:0]`. It creates or empties a chain of a proxy.
//! - *Unprintable* rule: its kind is known to `nft` alone; iptables binaries fail at it.
//! - *Frontend*: IP address, port and protocol, or a NodePort. If several service ports claim one,
//!   the tracker selects its owner, and only the owner gets rules for it.
//! - *Restore*: a run of `iptables-restore --noflush`.
//! - *Adopted* rules were found in the kernel at the start, and taken over instead of written.
//! - *Applied* rules were restored by this process or adopted, and recorded in [`AppliedState`];
//!   *live* rules were read from the kernel; *desired* ones follow from the input.
//! - *Dirty* Services are those that the next partial payload renders again.
//! - *Stale* chains and rules were written by a proxy and are not desired anymore: their Service,
//!   port or endpoint is gone. *Third-party* ones are of other programs.
//! - *Damaged* chains differ from their record: another program changed or deleted them.
//!
//! Rendering cannot fail. Adoption can, for reasons that `check_adoption` returns.
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.37)
//! KEP: kep.k8s.io/3453, kep.k8s.io/3178

mod applied_state;
mod fixed_chains;
mod line_owner;
mod live;
mod observe;
mod options;
mod payload;
mod service;
mod tree;

#[cfg(test)]
mod tests;

pub use crate::ruleset::{JUMPS, inline_trees, is_service_chain};
pub use applied_state::{AppliedState, PayloadStats, RuleCounts};
#[cfg(test)]
pub(crate) use fixed_chains::repair_payload;
pub(crate) use fixed_chains::{
    GuardedChainState, all_fixed_chains, localnet_drop_rule, note_guarded_damage,
};
pub use fixed_chains::{guarded_chains, has_desired_rules};
pub(crate) use line_owner::service_of_line;
pub use live::{LiveChains, LiveRules};
pub(crate) use observe::{INCOMPLETE_SHARED_CHAINS, adopt, check_adoption, unlike_rendered};
pub use options::{
    Counter, LARGE_CLUSTER_ENDPOINTS, LocalDetector, LocalMode, Masquerade, NodePortAddressItem,
    Options, PartialRestore, RenderSettings, TreeThresholds,
};
pub(crate) use options::{NodePortAddresses, RerenderReason};
pub use payload::{FullPayload, partial_payload};
pub(crate) use payload::{PartialPayload, Removal};
pub use service::ServiceTotals;
pub(crate) use service::{AppliedService, count_ports_over_limit, ports};
