//! Objects with defaults for what a test does not set.

#[cfg(test)]
use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Endpoint, NodeHint};
#[cfg(test)]
use super::{
    Service, ServiceName, ServicePort, ServiceState, Services, Slice, SlicePort, TrafficPolicy,
};
#[cfg(test)]
use crate::net::{Port, Protocol};

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

#[cfg(test)]
impl ServicePort {
    /// Returns a TCP port without a node port.
    pub(crate) fn tcp(name: &str, number: u16) -> Self {
        Self {
            name: name.into(),
            protocol: Protocol::Tcp,
            port: Port::new(number).unwrap(),
            node_port: None,
        }
    }
}

#[cfg(test)]
impl Slice {
    /// Returns a slice with this name and number of its TCP port.
    pub(crate) fn tcp(
        service: ServiceName,
        (name, number): (&str, u16),
        endpoints: impl IntoIterator<Item = Endpoint>,
    ) -> Self {
        Self {
            service,
            ports: Box::new([SlicePort::tcp(name, number)]),
            endpoints: endpoints.into_iter().collect(),
        }
    }
}

#[cfg(test)]
impl SlicePort {
    pub(crate) fn tcp(name: &str, number: u16) -> Self {
        Self {
            name: name.into(),
            protocol: Protocol::Tcp,
            number: Port::new(number).unwrap(),
        }
    }
}

/// Every Service that there is.
#[cfg(test)]
impl Services for BTreeMap<ServiceName, ServiceState> {
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_> {
        Box::new(self.iter())
    }

    fn get(&self, name: &ServiceName) -> Option<&ServiceState> {
        Self::get(self, name)
    }
}
