//! Selects the endpoints of a service port that this node uses: conditions, traffic policies,
//! hints, and the fallback to terminating endpoints.
//!
//! A Service may have 20,000 ports and 10,000 slices: a search through all slices for each port
//! would take their product, so endpoints are sorted by port first.
//!
//! # Source
//!
//! Upstream: pkg/proxy/topology.go, pkg/proxy/endpointslicecache.go (v1.37)
//! KEP: kep.k8s.io/1669, kep.k8s.io/2086, kep.k8s.io/2433, kep.k8s.io/3015

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::net::IpAddr;

use crate::model::{
    Allowance, Endpoint, NodeHint, Service, ServicePort, ServiceState, Topology, TrafficPolicy,
};
use crate::net::{Port, Protocol};

/// Maximum slices of a Service whose endpoints are used, the first ones by name. Kubernetes puts
/// up to 100 endpoints into a slice: this number of full slices has a million endpoints, four
/// times the limit of a Service.
///
/// Differs from upstream: kube-proxy uses all slices.
pub(crate) const MAX_SLICES: usize = 10_000;

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
            .take(MAX_SLICES)
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
    fn ports(&self) -> impl Iterator<Item = PortEndpoints<'_, 'a>> {
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
    /// Upstream: pkg/proxy/endpointslicecache.go, `addEndpoints` (v1.37)
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
/// Upstream: pkg/proxy/endpointschangetracker.go, `LocalReadyEndpoints` (v1.37)
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

/// Endpoint of a service port, with the traffic policies under which this node uses it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// `ip:port`.
    pub text: EndpointText,
    /// Conditions and hints.
    pub endpoint: &'a Endpoint,
    /// Gets traffic under policy Cluster.
    pub in_cluster: bool,
    /// Gets traffic under policy Local.
    pub in_local: bool,
}

impl Candidate<'_> {
    /// Reports whether any traffic of this node is sent to it, so that it needs a chain.
    pub fn is_reachable(&self) -> bool {
        self.in_cluster || self.in_local
    }
}

/// All endpoints of a service port, with the traffic policies under which this node uses each.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    /// Endpoints sorted by text, including unused ones: all count for large-cluster mode.
    pub candidates: Vec<Candidate<'a>>,
    /// Some endpoint in the cluster can serve traffic. Under policy Local that may be none that
    /// this node uses.
    pub has_any: bool,
    /// Some endpoint gets traffic under policy Local.
    pub has_local: bool,
}

/// Marks the endpoints that get traffic under each policy.
///
/// Policy Cluster applies unless the internal policy is Local and the port is not reachable from
/// outside the cluster. Policy Local applies if the internal policy is Local, or if the external
/// one is and the port is reachable from outside.
///
/// Upstream: pkg/proxy/topology.go, `CategorizeEndpoints` (v1.37)
pub fn select<'a>(
    mut candidates: Vec<Candidate<'a>>,
    service: &Service,
    port: &ServicePort,
    topology: &Topology,
) -> Selection<'a> {
    let is_external = service.is_externally_accessible(port);
    let is_internal_local = service.internal_policy == TrafficPolicy::Local;
    let uses_cluster = !is_internal_local || is_external;
    let uses_local =
        is_internal_local || (service.external_policy == TrafficPolicy::Local && is_external);

    if uses_cluster {
        mark_cluster(&mut candidates, topology);
    }
    if uses_local {
        mark_local(&mut candidates);
    }
    let has_any = if uses_local {
        candidates
            .iter()
            .any(|c| c.endpoint.is_ready || is_fallback(c.endpoint))
    } else {
        candidates.iter().any(|c| c.in_cluster)
    };
    let has_local = candidates.iter().any(|c| c.in_local);
    Selection {
        candidates,
        has_any,
        has_local,
    }
}

/// Marks ready endpoints in the part of the cluster that the hints select; if no endpoint is ready,
/// terminating ones that still serve, anywhere.
fn mark_cluster(candidates: &mut [Candidate<'_>], topology: &Topology) {
    let ready = candidates
        .iter()
        .map(|c| c.endpoint)
        .filter(|endpoint| endpoint.is_ready);
    let scope = HintScope::of(ready, topology);
    let mut has_ready = false;
    for candidate in candidates.iter_mut() {
        candidate.in_cluster = candidate.endpoint.is_ready && scope.admits(candidate.endpoint);
        has_ready |= candidate.in_cluster;
    }
    if !has_ready {
        for candidate in candidates {
            candidate.in_cluster = is_fallback(candidate.endpoint);
        }
    }
}

/// Marks ready endpoints on this node; if none is ready here, terminating ones here that still
/// serve. Hints have no effect: there is only one node.
fn mark_local(candidates: &mut [Candidate<'_>]) {
    let has_ready = candidates
        .iter()
        .any(|c| c.endpoint.is_local && c.endpoint.is_ready);
    for candidate in candidates {
        let endpoint = candidate.endpoint;
        let is_usable = if has_ready {
            endpoint.is_ready
        } else {
            is_fallback(endpoint)
        };
        candidate.in_local = endpoint.is_local && is_usable;
    }
}

const fn is_fallback(endpoint: &Endpoint) -> bool {
    endpoint.is_serving && endpoint.is_terminating
}

/// Part of the cluster that traffic should stay in, as hints ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HintScope<'a> {
    /// All endpoints.
    Anywhere,
    /// Endpoints with a hint for this node.
    SameNode,
    /// Endpoints with a hint for this zone.
    SameZone(&'a str),
}

impl<'a> HintScope<'a> {
    /// Returns the scope that follows from the hints of all ready endpoints, on a node with this
    /// topology.
    ///
    /// Upstream: pkg/proxy/topology.go, `topologyModeFromHints` (v1.37)
    fn of<'e>(ready: impl Iterator<Item = &'e Endpoint>, topology: &'a Topology) -> Self {
        let zone = topology.zone.as_deref();
        let mut tally = Tally {
            all_have_node: true,
            all_have_zone: true,
            ..Tally::default()
        };
        for endpoint in ready {
            tally.all_have_node &= endpoint.node_hint != NodeHint::Absent;
            tally.some_names_node |= endpoint.node_hint == NodeHint::Here;
            tally.all_have_zone &= !endpoint.zone_hints.is_empty();
            tally.some_names_zone |= zone.is_some_and(|zone| names_zone(endpoint, zone));
        }
        match zone {
            _ if tally.all_have_node && tally.some_names_node => Self::SameNode,
            Some(zone) if tally.all_have_zone && tally.some_names_zone => Self::SameZone(zone),
            _ => Self::Anywhere,
        }
    }

    /// Reports whether traffic may go to `endpoint`.
    fn admits(self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Anywhere => true,
            Self::SameNode => endpoint.node_hint == NodeHint::Here,
            Self::SameZone(zone) => names_zone(endpoint, zone),
        }
    }
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts about one list"
)]
struct Tally {
    all_have_node: bool,
    some_names_node: bool,
    all_have_zone: bool,
    some_names_zone: bool,
}

fn names_zone(endpoint: &Endpoint, zone: &str) -> bool {
    endpoint.zone_hints.iter().any(|hint| &**hint == zone)
}

/// Length of the longest text: `[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535` is 47 bytes.
const CAPACITY: usize = 47;

/// Text like `10.0.0.1:80` or `[fd00::1]:80`, compared as bytes: `10.0.1.10:80` comes before
/// `10.0.1.5:80`, as upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EndpointText {
    bytes: [u8; CAPACITY],
    len: u8,
}

impl EndpointText {
    /// Writes the text of one endpoint.
    pub fn new(ip: IpAddr, port: Port) -> Self {
        let mut text = Self {
            bytes: [0; CAPACITY],
            len: 0,
        };
        // Writing fails only if the text is full, and no address is longer than its capacity.
        let _ = match ip {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                let mut digits = itoa::Buffer::new();
                text.push(digits.format(a));
                text.push(".");
                text.push(digits.format(b));
                text.push(".");
                text.push(digits.format(c));
                text.push(".");
                text.push(digits.format(d));
                Ok(())
            }
            IpAddr::V6(ip) => write!(text, "[{ip}]"),
        };
        text.push(":");
        text.push(itoa::Buffer::new().format(port.get()));
        text
    }

    /// Returns the text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    fn push(&mut self, piece: &str) {
        let start = usize::from(self.len);
        let end = start + piece.len();
        if let Some(space) = self.bytes.get_mut(start..end) {
            space.copy_from_slice(piece.as_bytes());
            self.len = u8::try_from(end).unwrap_or(self.len);
        }
    }
}

impl Write for EndpointText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.push(piece);
        Ok(())
    }
}

impl Ord for EndpointText {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for EndpointText {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for EndpointText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(self.as_bytes()).unwrap_or_default())
    }
}

impl fmt::Debug for EndpointText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
#[path = "tests/select/mod.rs"]
mod tests;
