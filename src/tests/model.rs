//! Objects with defaults for what a test does not set.

use std::net::IpAddr;

use super::{Endpoint, NodeHint};
#[cfg(test)]
use super::{Service, ServicePort, TrafficPolicy};

impl Endpoint {
    /// Returns a ready endpoint of another node, without hints.
    pub fn ready(ip: IpAddr) -> Self {
        Self {
            ip,
            is_ready: true,
            is_serving: true,
            is_terminating: false,
            is_local: false,
            node_hint: NodeHint::Absent,
            zone_hints: Box::default(),
        }
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
