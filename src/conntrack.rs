//! Decides which conntrack entries of UDP are stale after a sync.
//!
//! The kernel evaluates rules for the first packet of a connection, and sends all others where
//! that one went, until the connection is idle for some time. TCP clients notice a dead endpoint;
//! UDP clients do not. [`host`](crate::host) deletes the entries that are found here.
//!
//! The candidates are passed from a sync to the sweep, which may fail: then those of later syncs
//! are merged into them.
//!
//! # Invariants
//!
//! - Only UDP, and only destinations of Services that changed: all other entries stay.
//! - A later sync overrides an earlier one for the same destination.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/cleanup.go, `CleanStaleEntries` (v1.37)

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::model::{Frontend, ServiceName, ServicePort, ServiceState, Services};
use crate::net::{IpFamily, Port, Protocol};
use crate::render::{NodePortAddresses, Options, ports};
use crate::select::{EndpointGroups, PortEndpoints};

/// Maximum filters of one sweep. The kernel walks its whole table for each filter, in some 20 ms
/// if it is empty; an entry that passes a filter takes 3 us. With more filters than this, one walk
/// that passes all of UDP takes less time for up to 30,000 entries.
const MOST_FILTERS: usize = 4;

/// Conntrack entry of UDP, with the parts that rules have decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Destination of the original tuple.
    pub destination: SocketAddr,
    /// Source of the reply tuple; the same as `destination` without translation.
    pub reply_source: SocketAddr,
}

/// Destination under which clients reach a service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Destination {
    /// Cluster IP, external IP or load balancer address, with the port.
    Address(SocketAddr),
    /// Port of the addresses of the node that NodePorts answer on.
    NodePort(Port),
}

/// Filter of a request to the kernel, for UDP: it passes a superset of the candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// All entries of the family.
    Everything,
    To(SocketAddr),
    ToPort(Port),
}

/// Entries of one destination that are not stale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValidEntries {
    /// Entries whose replies come from one of these endpoints; sorted. Without endpoints the rules
    /// reject all clients.
    RepliesFrom(Arc<[SocketAddr]>),
    /// Entries without translation: no Service has this destination.
    Untranslated,
}

impl ValidEntries {
    fn contains(&self, flow: &Flow) -> bool {
        match self {
            Self::RepliesFrom(endpoints) => endpoints.binary_search(&flow.reply_source).is_ok(),
            Self::Untranslated => flow.reply_source == flow.destination,
        }
    }
}

/// Candidates of one family; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StaleCandidates {
    /// Destinations of which some entry may be stale.
    candidates: HashMap<Destination, ValidEntries>,
    /// Destinations that gained endpoints: none of their entries became stale. They replace the
    /// valid entries of a candidate of an earlier change.
    gained_endpoints: HashMap<Destination, ValidEntries>,
}

/// Request to delete the stale entries of one family after a sync.
#[derive(Debug)]
pub(crate) struct SweepRequest {
    pub family: IpFamily,
    /// Destinations whose entries may be stale, or became valid.
    pub candidates: StaleCandidates,
    pub node_port_addresses: NodePortAddresses,
}

impl StaleCandidates {
    /// Adds a destination of which some entry may be stale; an earlier one of the same sync stays.
    fn add_candidate(&mut self, destination: Destination, valid: ValidEntries) {
        self.candidates.entry(destination).or_insert(valid);
    }

    fn add_gained(&mut self, destination: Destination, valid: ValidEntries) {
        self.gained_endpoints.entry(destination).or_insert(valid);
    }

    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Reports whether a sync affected no destination: there are neither candidates nor
    /// destinations that gained endpoints.
    pub fn affects_nothing(&self) -> bool {
        self.candidates.is_empty() && self.gained_endpoints.is_empty()
    }

    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// Reports whether any of them is a NodePort, for which the addresses of the node are needed.
    pub fn has_node_ports(&self) -> bool {
        let mut destinations = self.candidates.keys();
        destinations.any(|destination| matches!(destination, Destination::NodePort(_)))
    }

    pub fn merge(&mut self, newer: Self) {
        self.update(&newer);
        self.candidates.extend(newer.candidates);
    }

    /// Updates the valid entries of the candidates by a later sync: a long sweep must not delete
    /// entries that became valid meanwhile.
    pub fn update(&mut self, newer: &Self) {
        for (destination, valid) in newer.gained_endpoints.iter().chain(&newer.candidates) {
            if let Some(known) = self.candidates.get_mut(destination) {
                known.clone_from(valid);
            }
        }
    }

    /// Returns the filters, sorted, that together pass the entries of all candidates.
    pub fn filters(&self) -> Vec<Filter> {
        let mut filters = BTreeSet::new();
        for destination in self.candidates.keys() {
            filters.insert(match destination {
                Destination::Address(address) => Filter::To(*address),
                Destination::NodePort(port) => Filter::ToPort(*port),
            });
            if filters.len() > MOST_FILTERS {
                return vec![Filter::Everything];
            }
        }
        filters.into_iter().collect()
    }

    /// Reports whether the rules would send the packets of this entry elsewhere now. Addresses
    /// come before NodePorts, as in the rules.
    ///
    /// Differs from upstream: an entry belongs to a NodePort only if its destination is an address
    /// of this node. One with the same port on another host stays.
    pub fn is_stale(&self, flow: &Flow, has_node_ports: impl Fn(IpAddr) -> bool) -> bool {
        let address = Destination::Address(flow.destination);
        let valid = self.candidates.get(&address).or_else(|| {
            let port = flow.destination.port().try_into().ok()?;
            let valid = self.candidates.get(&Destination::NodePort(port))?;
            has_node_ports(flow.destination.ip()).then_some(valid)
        });
        valid.is_some_and(|valid| !valid.contains(flow))
    }
}

/// Returns the candidates of a sync: `now` holds all Services after it, `before` the earlier states
/// of those that changed. A destination belongs to one Service: where it moves from one to another,
/// both changed.
///
/// Differs from upstream: Services whose own ports or addresses changed count as well, and those
/// that were deleted; one that lost all endpoints loses its entries to NodePorts as well, so that
/// clients get an immediate reject instead of a connection to a dead endpoint. Only Services that
/// changed are checked; kube-proxy checks all of them each time.
pub fn stale_candidates(
    before: &[(ServiceName, ServiceState)],
    now: &dyn Services,
    options: &Options,
) -> StaleCandidates {
    let mut candidates = StaleCandidates::default();
    let mut gone = Vec::new();
    for (name, before) in before {
        let mut before = destinations(before, options);
        let now = now.get(name).map(|state| destinations(state, options));
        for (destination, endpoints) in now.unwrap_or_default() {
            let valid = ValidEntries::RepliesFrom(Arc::clone(&endpoints));
            match before.remove(&destination) {
                Some(known) if only_gained(&known, &endpoints) => {
                    candidates.add_gained(destination, valid);
                }
                Some(_) | None => candidates.add_candidate(destination, valid),
            }
        }
        gone.extend(before.into_keys());
    }
    // Destinations that moved to another Service are candidates already.
    for destination in gone {
        candidates.add_candidate(destination, ValidEntries::Untranslated);
    }
    candidates
}

/// Returns the candidates of a sync after a time in which rules were missing: the destinations of
/// all Services, and those that changed Services had `before`.
pub(crate) fn all_candidates(
    before: &[(ServiceName, ServiceState)],
    now: &dyn Services,
    options: &Options,
) -> StaleCandidates {
    let mut candidates = stale_candidates(before, now, options);
    for (_, state) in now.all() {
        for (destination, endpoints) in destinations(state, options) {
            candidates.add_candidate(destination, ValidEntries::RepliesFrom(endpoints));
        }
    }
    candidates
}

/// Reports whether no entry became stale: endpoints were added, and none was removed. The first
/// endpoint of a destination does not count as added: entries without translation may exist.
fn only_gained(before: &[SocketAddr], now: &[SocketAddr]) -> bool {
    let is_first = before.is_empty() && !now.is_empty();
    !is_first && before.iter().all(|known| now.binary_search(known).is_ok())
}

/// Returns every UDP destination of a Service, with the endpoints whose entries stay.
fn destinations(
    state: &ServiceState,
    options: &Options,
) -> HashMap<Destination, Arc<[SocketAddr]>> {
    let mut destinations = HashMap::new();
    let Some(service) = state.service.as_deref() else {
        return destinations;
    };
    let is_udp = |port: &ServicePort| port.protocol == Protocol::Udp;
    if !service.ports.iter().any(is_udp) {
        return destinations;
    }
    let groups = EndpointGroups::of(state);
    let endpoints: Vec<_> = ports(service, &groups)
        .map(|(port, endpoints)| {
            let endpoints = is_udp(port).then_some(endpoints);
            endpoints.map_or_else(Arc::default, keeping_flows)
        })
        .collect();
    for (of, _) in service.frontends(options.external_ips) {
        let destination = match of.frontend {
            Frontend::Address(ip, port, Protocol::Udp) => {
                Destination::Address(SocketAddr::new(ip, port.get()))
            }
            Frontend::NodePort(port, Protocol::Udp) => Destination::NodePort(port),
            _ => continue,
        };
        if let Some(endpoints) = endpoints.get(usize::from(of.port_index))
            && state.has(of.port_index, of.frontend)
        {
            destinations.insert(destination, Arc::clone(endpoints));
        }
    }
    destinations
}

/// Returns the endpoints whose entries stay, sorted: including those without new connections, as
/// they are terminating, or as a policy or a hint prefers others.
///
/// Differs from upstream: the entries of an endpoint that is ready and not serving
/// (`publishNotReadyAddresses`) stay. kube-proxy deletes them, and its rules create them again.
fn keeping_flows(endpoints: PortEndpoints<'_, '_>) -> Arc<[SocketAddr]> {
    let usable = endpoints.all().filter(|(e, _)| e.is_serving || e.is_ready);
    let mut endpoints: Vec<_> = usable
        .map(|(endpoint, port)| SocketAddr::new(endpoint.ip, port.get()))
        .collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints.into()
}

#[cfg(test)]
#[path = "tests/conntrack/mod.rs"]
mod tests;
