//! Groups the endpoints of one Service by port.
//!
//! A Service may have 20,000 ports and 10,000 slices: a search through all slices for each port
//! would take their product.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::endpoint_text::EndpointText;
use super::traffic::Candidate;
use crate::model::{Allowance, Endpoint, ServicePort, ServiceState};
use crate::net::{Port, Protocol};

/// Maximum slices of a Service whose endpoints are used, the first ones by name. Kubernetes puts
/// up to 100 endpoints into a slice: this number of full slices has a million endpoints, four
/// times the limit of a Service.
///
/// Differs from upstream: kube-proxy uses all slices.
pub(crate) const MOST_SLICES: usize = 10_000;

/// Endpoints of a Service, by the name and protocol of their port.
#[derive(Debug)]
pub struct EndpointGroups<'a> {
    /// Sorted by name and protocol; groups of one port in the order of their slices.
    groups: Vec<SliceGroup<'a>>,
}

/// Endpoints of one slice for one of its ports.
#[derive(Debug, Clone, Copy)]
struct SliceGroup<'a> {
    port: (&'a str, Protocol),
    number: Port,
    endpoints: &'a [Endpoint],
}

/// Endpoints of one port, from all slices; none by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct PortEndpoints<'g, 'a>(&'g [SliceGroup<'a>]);

impl<'a> EndpointGroups<'a> {
    /// Groups the endpoints of all slices, in linear time but for sorting. The limits of the
    /// namespace may leave none.
    pub fn of(state: &'a ServiceState) -> Self {
        let slices = match state.allowance {
            Allowance::Full => &*state.slices,
            Allowance::NoEndpoints | Allowance::NoRules => &[],
        };
        let mut groups: Vec<_> = slices
            .iter()
            .take(MOST_SLICES)
            .flat_map(|(_, slice)| {
                slice.ports.iter().map(|port| SliceGroup {
                    port: (&port.name, port.protocol),
                    number: port.number,
                    endpoints: &slice.endpoints,
                })
            })
            .collect();
        // Stable, so that groups of one port stay in the order of their slices.
        groups.sort_by_key(|group| group.port);
        Self { groups }
    }

    /// Returns the endpoints of a Service port.
    pub fn of_port(&self, port: &ServicePort) -> PortEndpoints<'_, 'a> {
        let key = (&*port.name, port.protocol);
        let first = self.groups.partition_point(|group| group.port < key);
        let rest = self.groups.get(first..).unwrap_or_default();
        let end = rest.iter().take_while(|group| group.port == key).count();
        PortEndpoints(rest.get(..end).unwrap_or_default())
    }

    /// Returns the endpoints of each port of the slices, including ports that the Service lacks.
    pub(super) fn ports(&self) -> impl Iterator<Item = PortEndpoints<'_, 'a>> {
        let ports = self.groups.chunk_by(|one, other| one.port == other.port);
        ports.map(PortEndpoints)
    }
}

impl<'a> PortEndpoints<'_, 'a> {
    /// Returns the number of endpoints; those in several slices count for each.
    pub fn count(self) -> usize {
        self.0.iter().map(|group| group.endpoints.len()).sum()
    }

    /// Returns every endpoint with its target port, in the order of slices.
    pub fn all(self) -> impl Iterator<Item = (&'a Endpoint, Port)> {
        let groups = self.0.iter();
        groups.flat_map(|group| {
            group
                .endpoints
                .iter()
                .map(|endpoint| (endpoint, group.number))
        })
    }

    /// Returns every endpoint in any condition, sorted by text, each text once.
    ///
    /// Two slices may hold the same endpoint while it moves between them. The later slice wins,
    /// unless the endpoint is terminating there.
    ///
    /// Differs from upstream: slices are visited in the order of their names. kube-proxy visits
    /// them in the random order of a map, so that the winner is random.
    ///
    /// Upstream: pkg/proxy/endpointslicecache.go, `addEndpoints` (v1.36)
    pub fn merge(self) -> Vec<Candidate<'a>> {
        let mut candidates = Vec::with_capacity(self.count());
        candidates.extend(self.all().map(|(endpoint, number)| Candidate {
            text: EndpointText::new(endpoint.ip, number),
            endpoint,
            in_cluster: false,
            in_local: false,
        }));
        if !candidates.is_sorted_by(|a, b| a.text < b.text) {
            // Stable, so that of equal texts the later slice's stays behind the earlier one's.
            candidates.sort_by_key(|candidate| candidate.text);
            candidates.dedup_by(|later, earlier| {
                let is_same = later.text == earlier.text;
                if is_same && !later.endpoint.is_terminating {
                    earlier.endpoint = later.endpoint;
                }
                is_same
            });
        }
        candidates
    }
}

/// Returns the number of distinct addresses of ready endpoints on this node, for health check node
/// ports. Terminating endpoints do not count, even where they are used as fallback.
///
/// Upstream: pkg/proxy/endpointschangetracker.go, `LocalReadyEndpoints` (v1.36)
pub(crate) fn local_ready(state: &ServiceState) -> usize {
    let groups = EndpointGroups::of(state);
    let endpoints = groups.ports().flat_map(PortEndpoints::merge);
    let ips: BTreeSet<IpAddr> = endpoints
        .map(|candidate| candidate.endpoint)
        .filter(|endpoint| endpoint.is_ready && endpoint.is_local)
        .map(|endpoint| endpoint.ip)
        .collect();
    ips.len()
}
