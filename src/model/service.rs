//! Services in one family, without their endpoints.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::endpoint::{Slice, SlicePort};
use crate::net::{IpNet, Port, Protocol};

/// Endpoints that traffic is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrafficPolicy {
    /// All endpoints.
    #[default]
    Cluster,
    /// Endpoints on this node.
    Local,
}

/// Service with rules in this family: it is neither headless nor of type `ExternalName`, and has a
/// cluster IP of the family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Cluster IP of this family.
    pub cluster_ip: IpAddr,
    /// `spec.externalIPs` of this family, in the order of the object, for any Service type.
    pub external_ips: Box<[IpAddr]>,
    /// Load balancer addresses of this family that are the destination of packets on the node
    /// (`ipMode` is `VIP` or absent), for any Service type. KEP: kep.k8s.io/1860
    pub load_balancer_ips: Box<[IpAddr]>,
    /// `spec.loadBalancerSourceRanges`: clients that may use the load balancer addresses; empty
    /// allows all.
    pub source_ranges: Box<[IpNet]>,
    /// `internalTrafficPolicy`. KEP: kep.k8s.io/2086
    pub internal_policy: TrafficPolicy,
    /// `externalTrafficPolicy`, [`TrafficPolicy::Cluster`] for Services it does not apply to.
    pub external_policy: TrafficPolicy,
    /// Timeout of `sessionAffinity: ClientIP`.
    pub affinity: Option<Duration>,
    /// `spec.healthCheckNodePort`, for type `LoadBalancer` with external policy Local.
    pub health_check_node_port: Option<Port>,
    /// Ports, sorted by name and protocol, each pair once.
    pub ports: Box<[ServicePort]>,
}

/// Port of a [`Service`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Name, empty without one; ports of slices have the same name.
    pub name: Arc<str>,
    /// Protocol; ports of slices have the same one.
    pub protocol: Protocol,
    /// Port on the cluster IP, the external IPs and the load balancer addresses.
    pub port: Port,
    /// Port on the addresses of the node, for any Service type.
    pub node_port: Option<Port>,
}

impl Service {
    /// Reports whether clients outside the cluster can reach `port`.
    ///
    /// Upstream: pkg/proxy/serviceport.go, `ExternallyAccessible` (v1.36)
    pub fn is_externally_accessible(&self, port: &ServicePort) -> bool {
        port.node_port.is_some()
            || !self.load_balancer_ips.is_empty()
            || !self.external_ips.is_empty()
    }

    /// Returns the number of rules of the Service without those of its endpoints, within a factor
    /// of three: each port has a few for each address and each source range.
    pub fn rules_without_endpoints(&self) -> usize {
        let addresses = 1 + self.external_ips.len() + self.load_balancer_ips.len();
        let each = addresses.saturating_add(self.source_ranges.len());
        self.ports.len().saturating_mul(each)
    }

    /// Returns the number of endpoints that a slice has for the ports of the Service, summed over
    /// the ports.
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
    /// Returns a Service with an address, ports, and defaults for everything else.
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
