//! Every decision about one service port, as fields and without text.
//!
//! Apart from the writing so that a policy can be read, and tested, without knowing what a rule
//! looks like.
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.36)

use std::net::IpAddr;

use super::chain::{ChainHasher, ChainKind, Hash, ServiceChain};
use crate::model::{
    Frontend, Service, ServiceName, ServicePort, ServicePortName, ServiceState, TrafficPolicy,
};
use crate::net::Port;
use crate::select::{self, PortEndpoints, Selection};

/// What is to be written for one service port.
pub(super) struct Plan<'a> {
    pub(super) name: ServicePortName<'a>,
    state: &'a ServiceState,
    /// Position of the port among those of its Service.
    index: u16,
    pub(super) service: &'a Service,
    pub(super) port: &'a ServicePort,
    pub(super) selection: Selection<'a>,
    pub(super) hasher: ChainHasher,
    pub(super) hash: Hash,
}

/// What traffic of one kind meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reception {
    /// It is sent to an endpoint.
    Served,
    /// Policy Local, and none of the endpoints is on this node. Dropped rather than refused: a
    /// client that retries may be sent to a better node.
    Dropped,
    /// No endpoint anywhere: the client is told at once.
    Rejected,
}

impl<'a> Plan<'a> {
    /// Decides everything about `port`.
    pub(super) fn new(
        service_name: &'a ServiceName,
        (state, service, index): (&'a ServiceState, &'a Service, u16),
        (port, endpoints): (&'a ServicePort, PortEndpoints<'_, 'a>),
        zone: Option<&str>,
    ) -> Self {
        let name = ServicePortName {
            service: service_name,
            port: &port.name,
            protocol: port.protocol,
        };
        let selection = select::select(endpoints.merge(), service, port, zone);
        let hasher = ChainHasher::new(name);
        let hash = hasher.service_port();
        Self {
            name,
            state,
            index,
            service,
            port,
            selection,
            hasher,
            hash,
        }
    }

    /// Reports whether the port has this address; otherwise another service port comes first.
    pub(super) fn has_address(&self, ip: IpAddr) -> bool {
        let frontend = Frontend::Address(ip, self.port.port, self.port.protocol);
        self.state.has(self.index, frontend)
    }

    /// Returns the NodePort, if the port asks for one and has it.
    pub(super) fn node_port(&self) -> Option<Port> {
        self.port.node_port.filter(|number| {
            let frontend = Frontend::NodePort(*number, self.port.protocol);
            self.state.has(self.index, frontend)
        })
    }

    /// Returns the health check node port, if the Service asks for one and has it.
    pub(super) fn health_check(&self) -> Option<Port> {
        self.state.health_check()
    }

    /// What traffic to the cluster IP meets.
    pub(super) fn internal(&self) -> Reception {
        self.reception(self.service.internal_policy)
    }

    /// What traffic from outside to an external IP, a load balancer address or a NodePort meets.
    /// Pods and the node itself are served under policy Cluster as long as anybody is.
    pub(super) fn external(&self) -> Reception {
        self.reception(self.service.external_policy)
    }

    /// Whether traffic from outside has a chain to enter by. It may have one and still be dropped
    /// at its end: the chain serves clients on this node, too.
    pub(super) fn has_external_chain(&self) -> bool {
        self.selection.has_any && self.service.is_externally_accessible(self.port)
    }

    /// Whether load balancer traffic has to pass the source ranges.
    pub(super) fn has_firewall_chain(&self) -> bool {
        self.selection.has_any
            && !self.service.load_balancer_ips.is_empty()
            && !self.service.source_ranges.is_empty()
    }

    /// The chain that implements `policy`.
    pub(super) const fn policy_chain(&self, policy: TrafficPolicy) -> ServiceChain {
        match policy {
            TrafficPolicy::Cluster => self.chain(ChainKind::Cluster),
            TrafficPolicy::Local => self.chain(ChainKind::Local),
        }
    }

    /// One of the service port's own chains.
    pub(super) const fn chain(&self, kind: ChainKind) -> ServiceChain {
        ServiceChain {
            kind,
            hash: self.hash,
        }
    }

    /// An endpoint's chain.
    pub(super) fn endpoint_chain(&self, endpoint: &[u8]) -> ServiceChain {
        ServiceChain {
            kind: ChainKind::Endpoint,
            hash: self.hasher.endpoint(endpoint),
        }
    }

    fn reception(&self, policy: TrafficPolicy) -> Reception {
        match policy {
            _ if !self.selection.has_any => Reception::Rejected,
            TrafficPolicy::Local if !self.selection.has_local => Reception::Dropped,
            TrafficPolicy::Local | TrafficPolicy::Cluster => Reception::Served,
        }
    }
}
