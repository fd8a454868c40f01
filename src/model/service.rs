//! A Service in one family.
//!
//! Apart from its ports' endpoints because the two arrive separately and in any order.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::endpoint::{Slice, SlicePort};
use crate::net::{IpNet, Port, Protocol};

/// Who may answer: every endpoint, or only those on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrafficPolicy {
    /// Endpoints anywhere.
    #[default]
    Cluster,
    /// Endpoints on this node only.
    Local,
}

/// A Service that has rules in this family: neither headless nor `ExternalName`, with a cluster
/// IP of the family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The cluster IP of this family.
    pub cluster_ip: IpAddr,
    /// `spec.externalIPs` of this family, in the order written, for any Service type.
    pub external_ips: Box<[IpAddr]>,
    /// Load balancer addresses of this family that are delivered to the node unchanged
    /// (`ipMode` is `VIP` or absent), for any Service type. KEP: kep.k8s.io/1860
    pub load_balancer_ips: Box<[IpAddr]>,
    /// Clients admitted to the load balancer addresses. Empty admits everyone.
    pub source_ranges: Box<[IpNet]>,
    /// `internalTrafficPolicy`. KEP: kep.k8s.io/2086
    pub internal_policy: TrafficPolicy,
    /// `externalTrafficPolicy`, [`TrafficPolicy::Cluster`] for Services it does not apply to.
    pub external_policy: TrafficPolicy,
    /// How long a client keeps its endpoint, for `sessionAffinity: ClientIP`.
    pub affinity: Option<Duration>,
    /// Where a load balancer asks how many endpoints are here: type `LoadBalancer` with external
    /// policy Local only.
    pub health_check_node_port: Option<Port>,
    /// The ports, sorted by name and protocol, each pair once.
    pub ports: Box<[ServicePort]>,
}

/// One port of a [`Service`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// The name, empty if it has none; endpoints are matched by it.
    pub name: Arc<str>,
    /// The protocol; endpoints are matched by it, too.
    pub protocol: Protocol,
    /// The number on the cluster IP, the external IPs and the load balancer addresses.
    pub port: Port,
    /// The number on the node's own addresses, for any Service type.
    pub node_port: Option<Port>,
}

impl Service {
    /// Whether clients outside the cluster can reach `port` at all.
    ///
    /// Upstream: pkg/proxy/serviceport.go, `ExternallyAccessible` (v1.36)
    pub fn is_externally_accessible(&self, port: &ServicePort) -> bool {
        port.node_port.is_some()
            || !self.load_balancer_ips.is_empty()
            || !self.external_ips.is_empty()
    }
}

impl Service {
    /// Returns the number of rules that the Service has apart from those of its endpoints, give or
    /// take a factor of three: each port has a few for each address and each range of clients.
    pub fn rules_without_endpoints(&self) -> usize {
        let addresses = 1 + self.external_ips.len() + self.load_balancer_ips.len();
        let each = addresses.saturating_add(self.source_ranges.len());
        self.ports.len().saturating_mul(each)
    }

    /// Returns the number of endpoints that a slice has for the ports of the Service, those of
    /// each port counted separately.
    pub fn endpoints_in(&self, slice: &Slice) -> usize {
        let is_own = |port: &&SlicePort| {
            let key = (&*port.name, port.protocol);
            let own = |own: &ServicePort| (&*own.name, own.protocol).cmp(&key);
            self.ports.binary_search_by(own).is_ok()
        };
        let ports = slice.ports.iter().filter(is_own).count();
        ports.saturating_mul(slice.endpoints.len())
    }
}

#[cfg(test)]
impl Service {
    /// With nothing but an address and ports, as most tests need one.
    pub(crate) fn plain(cluster_ip: IpAddr, ports: Box<[ServicePort]>) -> Self {
        Self {
            cluster_ip,
            external_ips: Box::default(),
            load_balancer_ips: Box::default(),
            source_ranges: Box::default(),
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            affinity: None,
            health_check_node_port: None,
            ports,
        }
    }
}
