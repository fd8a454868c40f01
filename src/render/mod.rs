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
//!   -> AppliedState                  record of the rules in the kernel, for the next difference
//! ```
//!
//! The crate's documentation explains the words; [`ruleset`](crate::ruleset) lists the chains.
//!
//! Rendering cannot fail. Adoption can, for reasons that `check_adoption` returns.
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.37)
//! KEP: kep.k8s.io/3453, kep.k8s.io/3178

mod applied_rules;
mod applied_state;
mod fixed_chains;
mod live;
mod options;
mod payload;
mod service;
mod tree;

#[cfg(test)]
mod tests;

pub use crate::ruleset::{JUMPS, is_service_chain};
pub(crate) use applied_rules::{applied_rules_of, write_applied};
pub use applied_state::AppliedState;
pub(crate) use applied_state::{INCOMPLETE_SHARED_CHAINS, adopt, check_adoption, unlike_rendered};
pub(crate) use fixed_chains::{all_fixed_chains, localnet_drop_rule, node_ports_jumps};
pub(crate) use live::GuardedChainState;
pub use live::{LiveChains, LiveRules, guarded_chains, has_desired_rules};
pub(crate) use options::{Comments, NodePortAddresses};
pub use options::{
    Counter, LARGE_CLUSTER_ENDPOINTS, LocalDetector, LocalMode, Masquerade, NodePortAddressItem,
    Options, PartialRestore, RenderSettings, TreeThresholds,
};
#[cfg(test)]
pub(crate) use payload::repair_payload;
pub use payload::{FullPayload, PayloadStats, partial_payload};
pub(crate) use payload::{PartialPayload, Removal, service_of_line};
pub(crate) use service::{AppliedService, count_ports_over_limit, ports};
pub(crate) use service::{Disposition, Plan, endpoints_upper_bound};
pub use service::{RuleCounts, ServiceTotals};
pub(crate) use service::{ServiceRules, render as render_service};
