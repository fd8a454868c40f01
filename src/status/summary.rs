//! Summary of the rules of a Service for human readers: frontends with the treatment of their
//! packets, and endpoints with the traffic that they get.

use std::time::Duration;

use crate::model::{
    Allowance, ExternalIps, Frontend, FrontendRank, LostFrontend, ServiceName, ServiceState,
    Topology, TrafficPolicy,
};
use crate::net::{IpNet, Port, Protocol};
use crate::render::{Disposition, Plan, count_ports_over_limit, ports};
use crate::select::{Candidate, EndpointGroups, EndpointText};

/// First items of a list that may be long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown<T> {
    pub(crate) first: Vec<T>,
    pub(crate) count: usize,
}

/// Numbers of items in a summary: an object of the API may have a hundred thousand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SummaryLimits {
    pub(crate) ports: usize,
    /// Frontends of each port, and source ranges.
    pub(crate) frontends: usize,
    /// Endpoints of all ports together.
    pub(crate) endpoints: usize,
}

/// Summary of a Service in one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RulesSummary {
    pub(crate) internal_policy: TrafficPolicy,
    pub(crate) external_policy: TrafficPolicy,
    /// Timeout of `sessionAffinity: ClientIP`.
    pub(crate) affinity: Option<Duration>,
    pub(crate) source_ranges: Shown<IpNet>,
    /// Health check node port, if the Service asks for one and has it.
    pub(crate) health_check: Option<Port>,
    pub(crate) allowance: Allowance,
    /// Ports without endpoints because they have too many.
    pub(crate) ports_over_limit: usize,
    pub(crate) ports: Shown<PortSummary>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortSummary {
    /// Name; empty without one.
    pub(crate) name: Box<str>,
    pub(crate) protocol: Protocol,
    pub(crate) frontends: Shown<FrontendSummary>,
    pub(crate) endpoints: Shown<EndpointSummary>,
    /// Number of endpoints that get traffic under policy Cluster.
    pub(crate) in_cluster: usize,
    /// Number of endpoints that get traffic under policy Local.
    pub(crate) in_local: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrontendSummary {
    /// Kind, as in the documents of `deltaproxy services`.
    pub(crate) kind: &'static str,
    pub(crate) frontend: Frontend,
    /// Treatment of packets to it; `None`: it has no rules, as another Service has the frontend or
    /// the Service is over a limit.
    pub(crate) disposition: Option<Disposition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointSummary {
    pub(crate) text: EndpointText,
    pub(crate) condition: EndpointCondition,
    pub(crate) is_local: bool,
    /// Gets traffic under policy Cluster.
    pub(crate) in_cluster: bool,
    /// Gets traffic under policy Local.
    pub(crate) in_local: bool,
}

enum_of_words! {
    /// Condition of an endpoint, from those in its slice.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum EndpointCondition {
        Ready = "ready",
        NotReady = "not ready",
        /// Ready or not.
        Terminating = "terminating",
    }
}

impl<T> Shown<T> {
    /// Keeps the first items of a list.
    fn new(all: impl IntoIterator<Item = T>, most: usize) -> Self {
        let mut all = all.into_iter();
        let first: Vec<T> = all.by_ref().take(most).collect();
        let count = first.len() + all.count();
        Self { first, count }
    }

    /// Returns the number of items that are left out.
    pub(crate) fn left_out(&self) -> usize {
        self.count - self.first.len()
    }
}

impl RulesSummary {
    /// Summarizes a Service; `None` while only its slices are known.
    pub(crate) fn of(
        name: &ServiceName,
        state: &ServiceState,
        topology: &Topology,
        external_ips: ExternalIps,
        limits: SummaryLimits,
    ) -> Option<Self> {
        let service = state.service.as_deref()?;
        let groups = EndpointGroups::of(state);
        let frontends = service.frontends(external_ips);
        let mut shown = Vec::new();
        let mut endpoints = limits.endpoints;
        for (index, port) in (0..=u16::MAX)
            .zip(ports(service, &groups))
            .take(limits.ports)
        {
            let plan = Plan::new(name, (state, service, index), port, topology);
            let begin = frontends.partition_point(|(of, _)| of.port_index < index);
            let own = frontends.iter().skip(begin);
            let own = own.take_while(|(of, _)| of.port_index == index);
            let own = own.map(|(of, rank)| FrontendSummary::of(&plan, of.frontend, *rank));
            let summary = PortSummary {
                name: plan.name.port.into(),
                protocol: plan.name.protocol,
                frontends: Shown::new(own, limits.frontends),
                endpoints: Shown::new(plan.selection.candidates.iter().map(Into::into), endpoints),
                in_cluster: count(&plan, |candidate| candidate.in_cluster),
                in_local: count(&plan, |candidate| candidate.in_local),
            };
            endpoints -= summary.endpoints.first.len();
            shown.push(summary);
        }
        Some(Self {
            internal_policy: service.internal_policy,
            external_policy: service.external_policy,
            affinity: service.affinity,
            source_ranges: Shown::new(service.source_ranges.iter().copied(), limits.frontends),
            health_check: state.health_check(),
            allowance: state.allowance,
            ports_over_limit: count_ports_over_limit(state),
            ports: Shown {
                first: shown,
                count: service.ports.len(),
            },
        })
    }

    /// Returns the number of endpoints with traffic under any policy, over the ports of the
    /// summary.
    pub(crate) fn endpoints(&self) -> usize {
        let ports = self.ports.first.iter();
        ports.map(|port| port.in_cluster.max(port.in_local)).sum()
    }
}

impl FrontendSummary {
    fn of(plan: &Plan<'_>, frontend: Frontend, rank: FrontendRank) -> Self {
        let disposition = match (frontend, rank) {
            (Frontend::Address(..), FrontendRank::Allocated) => plan.internal_disposition(),
            // Probes of a load balancer are answered by the proxy.
            (Frontend::HealthCheck(_), _) => Disposition::Forward,
            _ => plan.external_disposition(),
        };
        Self {
            kind: LostFrontend::kind_of(frontend, rank),
            frontend,
            disposition: plan.owns(frontend).then_some(disposition),
        }
    }
}

impl From<&Candidate<'_>> for EndpointSummary {
    fn from(candidate: &Candidate<'_>) -> Self {
        let endpoint = candidate.endpoint;
        Self {
            text: candidate.text,
            condition: match (endpoint.is_terminating, endpoint.is_ready) {
                (true, _) => EndpointCondition::Terminating,
                (false, true) => EndpointCondition::Ready,
                (false, false) => EndpointCondition::NotReady,
            },
            is_local: endpoint.is_local,
            in_cluster: candidate.in_cluster,
            in_local: candidate.in_local,
        }
    }
}

fn count(plan: &Plan<'_>, is_counted: impl Fn(&Candidate<'_>) -> bool) -> usize {
    let candidates = plan.selection.candidates.iter();
    candidates.filter(|candidate| is_counted(candidate)).count()
}

#[cfg(test)]
#[path = "tests/summary.rs"]
mod tests;
