//! Decides what several rules of a service port depend on: its endpoints, the frontends that it
//! owns, the chains that it has, and the treatment of packets.
//!
//! Kept separate from the writers so that a policy can be read, and tested, without knowing its
//! rules.
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules` (v1.37)

use std::net::IpAddr;
use std::sync::Arc;

use super::service_rules::ServiceTotals;
use crate::model::{
    Allowance, Frontend, MOST_ENDPOINTS, Service, ServiceName, ServicePort, ServicePortName,
    ServiceState, Topology, TrafficPolicy,
};
use crate::net::Port;
use crate::render::options::Options;
use crate::ruleset::{ChainHash, ChainHasher, ChainKind, ServiceChain};
use crate::select::{self, Candidate, EndpointGroups, PortEndpoints, Selection};

/// Decisions about one service port that several of its rules depend on.
pub(crate) struct Plan<'a> {
    pub(crate) name: ServicePortName<'a>,
    state: &'a ServiceState,
    /// Index of the port in its Service.
    index: u16,
    pub(super) service: &'a Service,
    pub(super) port: &'a ServicePort,
    /// Endpoints of the port. `has_any`: some can serve; `has_local`: some on this node gets
    /// traffic under policy Local.
    pub(crate) selection: Selection<'a>,
    hasher: ChainHasher,
    hash: ChainHash,
}

/// Treatment of packets to a frontend, as a traffic policy requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Packets are sent to an endpoint.
    Forward,
    /// Traffic policy Local, and no usable endpoint is on this node. Dropped rather than rejected:
    /// a load balancer may send the retry of an external client to a node that has one. Internal
    /// traffic is dropped as upstream.
    Drop,
    /// No usable endpoint on any node: the client gets an immediate reject.
    Reject,
}

impl<'a> Plan<'a> {
    /// Plans `port`.
    pub(crate) fn new(
        service_name: &'a ServiceName,
        (state, service, index): (&'a ServiceState, &'a Service, u16),
        (port, endpoints): (&'a ServicePort, PortEndpoints<'_, 'a>),
        topology: &Topology,
    ) -> Self {
        let name = ServicePortName {
            service: service_name,
            port: &port.name,
            protocol: port.protocol,
        };
        let selection = select::select(endpoints.merge(), service, port, topology);
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

    /// Reports whether the port owns the frontend at this address. If several service ports claim
    /// it, only the one that the tracker has selected owns it and gets the rules.
    pub(super) fn owns_address(&self, ip: IpAddr) -> bool {
        let frontend = Frontend::Address(ip, self.port.port, self.port.protocol);
        self.state.has(self.index, frontend)
    }

    /// Reports whether the port owns a frontend, and so its rules.
    pub(crate) fn owns(&self, frontend: Frontend) -> bool {
        self.state.has(self.index, frontend)
    }

    /// Returns the NodePort, if the port requests one and owns it.
    pub(super) fn node_port(&self) -> Option<Port> {
        self.port.node_port.filter(|number| {
            let frontend = Frontend::NodePort(*number, self.port.protocol);
            self.state.has(self.index, frontend)
        })
    }

    /// Returns the health check node port, if the Service requests one and owns it.
    pub(super) fn health_check(&self) -> Option<Port> {
        self.state.health_check()
    }

    /// Returns the treatment of packets to the cluster IP.
    pub(crate) fn internal_disposition(&self) -> Disposition {
        self.disposition(self.service.internal_policy)
    }

    /// Returns the treatment of packets from outside to an external IP, a load balancer address or
    /// a NodePort. Local Pod traffic and packets from this node are treated as if the policy were
    /// Cluster.
    pub(crate) fn external_disposition(&self) -> Disposition {
        self.disposition(self.service.external_policy)
    }

    /// Reports whether the port has a `KUBE-EXT` chain. It has one even if traffic from outside is
    /// dropped, because the chain also serves Pods and processes on this node.
    ///
    /// A port with this chain also has `KUBE-SVC`, under either policy: it is externally
    /// accessible and has a usable endpoint, so `select` marks at least one endpoint for policy
    /// Cluster.
    pub(super) fn has_external_chain(&self) -> bool {
        self.selection.has_any && self.service.is_externally_accessible(self.port)
    }

    /// Reports whether the port has a `KUBE-FW` chain, which admits load balancer traffic from the
    /// source ranges only.
    pub(super) fn has_source_range_chain(&self) -> bool {
        self.selection.has_any
            && !self.service.load_balancer_ips.is_empty()
            && !self.service.source_ranges.is_empty()
    }

    /// Returns the chain that implements `policy`.
    pub(super) const fn policy_chain(&self, policy: TrafficPolicy) -> ServiceChain {
        match policy {
            TrafficPolicy::Cluster => self.chain(ChainKind::Cluster),
            TrafficPolicy::Local => self.chain(ChainKind::Local),
        }
    }

    /// Returns a chain of the service port itself.
    pub(super) const fn chain(&self, kind: ChainKind) -> ServiceChain {
        ServiceChain {
            kind,
            hash: self.hash,
        }
    }

    pub(super) fn endpoint_chain(&self, endpoint: &[u8]) -> ServiceChain {
        ServiceChain {
            kind: ChainKind::Endpoint,
            hash: self.hasher.endpoint(endpoint),
        }
    }

    /// Returns the numbers that the port adds to the sums over all ports.
    ///
    /// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`,
    /// `serviceNoLocalEndpointsTotalInternal` and `-External` (v1.37)
    pub(super) fn totals(&self, options: &Options) -> ServiceTotals {
        let is_undetected = |candidate: &Candidate<'_>| {
            let ip = candidate.endpoint.ip;
            candidate.endpoint.is_local && ip != options.node_ip && options.local_traffic.misses(ip)
        };
        ServiceTotals {
            endpoints: self.selection.candidates.len(),
            internal_dropped: usize::from(self.internal_disposition() == Disposition::Drop),
            external_dropped: usize::from(self.external_disposition() == Disposition::Drop),
            undetected: usize::from(self.selection.candidates.iter().any(is_undetected)),
        }
    }

    fn disposition(&self, policy: TrafficPolicy) -> Disposition {
        match policy {
            _ if !self.selection.has_any => Disposition::Reject,
            TrafficPolicy::Local if !self.selection.has_local => Disposition::Drop,
            TrafficPolicy::Local | TrafficPolicy::Cluster => Disposition::Forward,
        }
    }
}

/// Calls `write` with the plan of each port of a Service. There is none while only the slices of
/// the Service are known, or if the limits of its namespace
/// ([`NamespaceLimits`](crate::model::NamespaceLimits)) allow it no rules.
pub(super) fn for_each_plan(
    name: &ServiceName,
    state: &ServiceState,
    topology: &Topology,
    mut write: impl FnMut(&Plan<'_>),
) {
    let Some(service) = &state.service else {
        return;
    };
    if state.allowance == Allowance::NoRules {
        return;
    }
    let groups = EndpointGroups::of(state);
    for (index, port) in (0..=u16::MAX).zip(ports(service, &groups)) {
        write(&Plan::new(name, (state, service, index), port, topology));
    }
}

/// Returns an upper bound of [`count_endpoints`], without merging slices: an endpoint in several
/// of them counts several times.
pub(crate) fn endpoints_upper_bound(state: &ServiceState) -> usize {
    let slices = state.slices.iter().map(|(_, slice)| slice);
    let of_service = |service: &Arc<Service>| slices.map(|slice| service.endpoints_in(slice)).sum();
    state.service.as_ref().map_or(0, of_service)
}

/// Returns the number of endpoints of a Service, in any condition, over all its ports.
pub(crate) fn count_endpoints(state: &ServiceState) -> usize {
    let Some(service) = &state.service else {
        return 0;
    };
    let groups = EndpointGroups::of(state);
    ports(service, &groups)
        .map(|(_, endpoints)| endpoints.merge().len())
        .sum()
}

/// Returns the ports of a Service, each with its endpoints in any condition. Together they have at
/// most [`MOST_ENDPOINTS`]: a port that would exceed this gets none.
pub(crate) fn ports<'g, 'a>(
    service: &'a Service,
    groups: &'g EndpointGroups<'a>,
) -> impl Iterator<Item = (&'a ServicePort, PortEndpoints<'g, 'a>)> {
    with_limit(service, groups).map(|(port, endpoints)| (port, endpoints.unwrap_or_default()))
}

/// Returns the number of ports of a Service that get no endpoints because of [`MOST_ENDPOINTS`].
pub(crate) fn count_ports_over_limit(state: &ServiceState) -> usize {
    let Some(service) = &state.service else {
        return 0;
    };
    let groups = EndpointGroups::of(state);
    let all = with_limit(service, &groups);
    all.filter(|(_, endpoints)| endpoints.is_none()).count()
}

/// Returns each port with its endpoints, or with `None` for a port that exceeds the limit: one
/// whose endpoints, added to those of the earlier ports within the limit, are more than
/// [`MOST_ENDPOINTS`].
fn with_limit<'g, 'a>(
    service: &'a Service,
    groups: &'g EndpointGroups<'a>,
) -> impl Iterator<Item = (&'a ServicePort, Option<PortEndpoints<'g, 'a>>)> {
    let mut unused = MOST_ENDPOINTS;
    service.ports.iter().map(move |port| {
        let endpoints = groups.of_port(port);
        let Some(rest) = unused.checked_sub(endpoints.count()) else {
            return (port, None);
        };
        unused = rest;
        (port, Some(endpoints))
    })
}
