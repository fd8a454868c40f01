//! This node, as far as rules depend on it.
//!
//! Apart because it changes at another pace, and a change of it concerns every Service.

use std::net::IpAddr;
use std::sync::Arc;

use crate::net::IpNet;

/// What the cluster says of the node we run on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// `topology.kubernetes.io/zone`; zone hints are compared with it.
    pub zone: Option<Arc<str>>,
    /// Internal addresses in order, then external ones. The first is the primary.
    pub addresses: Vec<IpAddr>,
    /// `spec.podCIDRs`, for the detection of local traffic in mode `NodeCIDR`.
    pub pod_cidrs: Vec<IpNet>,
    /// Load balancers should stop sending: it is being deleted, or the autoscaler is about to.
    pub is_leaving: bool,
}
