//! Names and roles of the chains, entry jumps and comments that make up the ruleset of a
//! kube-proxy.
//!
//! Writers and readers of rules share it, so that both recognize a chain in the same way. Chain
//! names are the contract with every other program on the node: metrics, runbooks and a kube-proxy
//! that is installed again all recognize chains by them.
//!
//! # Chains
//!
//! - A *Service chain* (`KUBE-SVC-*`, `KUBE-SVL-*`, `KUBE-EXT-*`, `KUBE-FW-*`, `KUBE-SEP-*`)
//!   belongs to one service port, or to one of its endpoints.
//! - A *dispatch chain* (`KUBE-SERVICES`, `KUBE-NODEPORTS`, `KUBE-EXTERNAL-SERVICES`,
//!   `KUBE-PROXY-FIREWALL`) always exists, and holds rules of every Service.
//! - A *fixed chain* (`KUBE-POSTROUTING`, `KUBE-MARK-MASQ`, `KUBE-FORWARD`, `KUBE-FIREWALL`)
//!   always exists, and its rules depend on options alone.
//! - *Shared chains* are dispatch chains, fixed chains and canaries.
//! - An *entry jump* is a rule in a built-in chain that leads to a dispatch or fixed chain.

mod comment;
mod jump;
mod service_chain;
mod shared_chains;

pub(crate) use comment::{NODE_PORTS_COMMENT, PortComment};
pub use jump::JUMPS;
pub(crate) use jump::Jump;
pub use service_chain::is_service_chain;
pub(crate) use service_chain::{ChainHasher, Hash};
pub(crate) use service_chain::{ChainKind, ServiceChain};
pub use shared_chains::KUBE_PROXY_CANARY;
pub(crate) use shared_chains::{
    DispatchChain, FILTER_CHAINS, IPVS_CHAINS, KUBE_EXTERNAL_SERVICES, KUBE_FIREWALL, KUBE_FORWARD,
    KUBE_MARK_DROP, KUBE_MARK_MASQ, KUBE_NODEPORTS, KUBE_POSTROUTING, KUBE_PROXY_FIREWALL,
    KUBE_SERVICES, NAT_CHAINS, is_proxy_chain,
};
