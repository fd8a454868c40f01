//! The Node of this proxy, reduced to what rules depend on.

use std::net::IpAddr;
use std::sync::Arc;

use crate::net::IpNet;

/// Properties of the Node object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// Label `topology.kubernetes.io/zone`, which zone hints are compared with.
    pub zone: Option<Arc<str>>,
    /// Internal addresses in the order of the object, then external ones. The first is the primary
    /// address.
    pub addresses: Vec<IpAddr>,
    /// `spec.podCIDRs`, for local traffic detection in mode `NodeCIDR`.
    pub pod_cidrs: Vec<IpNet>,
    /// The Node is being deleted, or the cluster autoscaler is about to delete it: load balancers
    /// should stop sending.
    pub is_leaving: bool,
}
