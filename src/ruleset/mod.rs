//! Names and roles of the chains, entry jumps and comments that make up the ruleset of a
//! kube-proxy.
//!
//! Code that writes rules and code that reads them both use these definitions. Chain names are the
//! contract with every other program on the node: monitoring, runbooks and a kube-proxy that is
//! installed again all recognize chains by them.
//!
//! # Chains
//!
//! - A *Service chain* (`KUBE-SVC-*`, `KUBE-SVL-*`, `KUBE-EXT-*`, `KUBE-FW-*`, `KUBE-SEP-*`)
//!   belongs to one service port, or to one of its endpoints. All are in the nat table.
//! - A *dispatch chain* (`KUBE-SERVICES`, `KUBE-NODEPORTS`, `KUBE-EXTERNAL-SERVICES`,
//!   `KUBE-PROXY-FIREWALL`) holds rules of every Service: it dispatches packets to their chains.
//! - A *tree chain* (`KUBE-SVC-10.96.0.0/15`) holds the part of a dispatch chain's rules for the
//!   destinations with one prefix, if the dispatch chain is the root of a tree.
//! - A *fixed chain* (`KUBE-POSTROUTING`, `KUBE-MARK-MASQ`, `KUBE-FORWARD`, `KUBE-FIREWALL`) has
//!   rules that depend on options alone.
//! - A *canary* is an empty chain. If it is missing, another program has deleted chains.
//! - *Shared chains* are dispatch chains, fixed chains and canaries. They exist from the first
//!   full restore on, with or without Services.
//! - An *entry jump* is a rule in a built-in chain that jumps to a dispatch or fixed chain.

mod counted_jump;
mod recognition;
mod service_chain;
mod shared_chains;
mod tree_chain;

pub(crate) use counted_jump::CountedJump;
#[cfg(feature = "tools")]
pub use recognition::flattened;
pub(crate) use recognition::{ChainRole, DispatchForm, holds_dispatch_rules, is_proxy_chain};
pub use service_chain::is_service_chain;
pub(crate) use service_chain::{ChainHash, ChainHasher, ChainKind, PortComment, ServiceChain};
pub(crate) use shared_chains::{
    DispatchChain, DispatchDestination, FILTER_CHAINS, IPVS_CHAINS, Jump, KUBE_EXTERNAL_SERVICES,
    KUBE_FIREWALL, KUBE_FORWARD, KUBE_MARK_DROP, KUBE_MARK_MASQ, KUBE_NODEPORTS, KUBE_POSTROUTING,
    KUBE_PROXY_FIREWALL, KUBE_SERVICES, NAT_CHAINS, NODE_PORTS_COMMENT,
};
pub use shared_chains::{JUMPS, KUBE_PROXY_CANARY};
pub(crate) use tree_chain::{Prefix, jumps_for_one_destination, tree_of};
