//! Names and roles of the chains and jumps that make up the ruleset of a kube-proxy.
//!
//! Writers and readers of rules share it, so that both recognize a chain in the same way. Chain
//! names are the contract with every other program on the node: metrics, runbooks and a kube-proxy
//! that is installed again all recognize chains by them.
//!
//! # Chains
//!
//! - A *Service chain* belongs to one service port, or to one of its endpoints.
//! - A *dispatch chain* exists whatever the Services are, and holds rules of all of them.
//! - A *fixed chain* exists whatever the Services are, and its rules depend on options alone.
//! - A *jump* is a rule in a built-in chain that leads to a dispatch or fixed chain.

mod jump;
mod service_chain;
mod shared_chains;

pub use jump::{JUMPS, Jump};
pub(crate) use service_chain::{ChainHasher, Hash};
pub use service_chain::{ChainKind, ServiceChain, is_service_chain};
pub use shared_chains::{
    DispatchChain, FILTER_CHAINS, KUBE_EXTERNAL_SERVICES, KUBE_FIREWALL, KUBE_FORWARD,
    KUBE_MARK_MASQ, KUBE_NODEPORTS, KUBE_POSTROUTING, KUBE_PROXY_CANARY, KUBE_PROXY_FIREWALL,
    KUBE_SERVICES, NAT_CHAINS, is_proxy_chain,
};
