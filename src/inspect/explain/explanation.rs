//! Explanations: everything that is reported about one destination.
//!
//! Finds the destinations of a query, traces the packets of each kind of client, and suggests
//! similar destinations if no Service has the one that was queried.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::client::{self, ClientKind, ClientSelection};
use super::destination::{self, NotFound, PacketDestination, Query};
use super::node::{AddressOrigin, NodeRules};
use super::path::{PacketPath, PathResult};
use super::trace::trace;
use crate::inspect::catalog::{FrontendConflict, FrontendKind, PortName, PortView};
use crate::net::Protocol;
use crate::rules::{Network, Table};

/// Paths of packets to one destination.
#[derive(Debug, Clone)]
pub struct Explanation<'a> {
    pub to: PacketDestination,
    /// Paths of different clients: at least one.
    pub paths: Vec<PacketPath<'a>>,
    /// Timeout of `sessionAffinity: ClientIP`; `None`: no affinity.
    pub affinity: Option<Duration>,
    /// `loadBalancerSourceRanges` of the Service; empty: not limited.
    pub source_ranges: Vec<Network>,
    /// Service ports that declare this frontend without effect, because another Service has it.
    pub conflicts: Vec<FrontendConflict>,
    /// Endpoints of the Services of this destination in the rules.
    pub endpoints: BTreeSet<SocketAddr>,
    /// Addresses to which conntrack sends UDP clients of this destination although they are no
    /// endpoints in the rules; empty if conntrack was not read.
    pub stale_flows: BTreeSet<SocketAddr>,
    /// Hints at similar destinations, if this one is not a Service's.
    pub suggestions: Vec<String>,
    /// An address of the node was assumed, because none is known.
    pub is_node_address_assumed: bool,
    /// The assumed address of the node, if the explanation depends on it.
    pub assumed_node_ip: Option<IpAddr>,
    /// Addresses that rules show to be the node's; empty if its addresses are known.
    pub inferred_node_ips: BTreeSet<IpAddr>,
    /// Addresses that may be the node's, of which none is known, and then change the result.
    pub possible_node_ips: Vec<IpAddr>,
    pub destination_origin: AddressOrigin,
    /// Number of rules of the node that cannot be read: any may be about the destination.
    pub unreadable_rules: usize,
    /// Pods are omitted, because no address of one is known.
    pub lacks_pod_address: bool,
    /// Tables that are not in the input; rules there may match these packets.
    pub missing_tables: BTreeSet<Table>,
    /// Unknown tables that have rules, which are not read.
    pub unread_tables: Vec<Box<str>>,
}

impl Explanation<'_> {
    /// Returns the address of this destination, if it is that of a Service and conntrack may send
    /// clients elsewhere than the rules: UDP has no other connections.
    pub(crate) fn udp_frontend(&self) -> Option<SocketAddr> {
        let is_udp = self.to.protocol == Protocol::Udp && !self.to.frontends.is_empty();
        is_udp.then(|| SocketAddr::new(self.to.ip, self.to.port.get()))
    }

    /// Notes a conntrack entry of a client, by the address that its replies come from.
    pub(crate) fn add_flow(&mut self, reply_source: SocketAddr) {
        if !self.endpoints.contains(&reply_source) {
            self.stale_flows.insert(reply_source);
        }
    }
}

/// Explains every destination of a query.
///
/// # Errors
///
/// If no rules match the query, or no client that can be selected reaches a destination.
pub fn explain<'a>(
    query: &Query,
    nodes: &[NodeRules<'a>],
    selection: &ClientSelection,
) -> Result<Vec<Explanation<'a>>, NotFound> {
    let found = destination::find(query, nodes)?;
    let lacks_pod_address = |(node, to): &(&NodeRules<'_>, PacketDestination)| {
        client::lacks_pod_address(node, to, selection)
    };
    let lacks_pod_address = found.iter().any(lacks_pod_address);
    let explained = found
        .into_iter()
        .filter_map(|(node, to)| of_destination(node, to, selection));
    let explained: Vec<_> = explained.collect();
    if explained.is_empty() {
        return Err(if lacks_pod_address {
            NotFound::Pods
        } else {
            NotFound::Client
        });
    }
    Ok(explained)
}

fn of_destination<'a>(
    node: &NodeRules<'a>,
    to: PacketDestination,
    selection: &ClientSelection,
) -> Option<Explanation<'a>> {
    let mut paths: Vec<PacketPath<'a>> = Vec::new();
    for client in client::clients(node, &to, selection) {
        let path = trace(node, &to, client);
        match paths.iter_mut().find(|known| known.is_equivalent(&path)) {
            Some(known) => known.merge(path),
            None => paths.push(path),
        }
    }
    let is_local = node.traced_node.is_local(to.ip);
    let involves_node = is_local || has_node_client(&paths);
    let balanced = to
        .views(node)
        .find(|(frontend, _)| frontend.is_load_balancer());
    let source_ranges = balanced.map(|(_, view)| view.source_ranges.clone());
    let source_ranges = source_ranges.unwrap_or_default();
    let affinity = to.views(node).find_map(|(_, view)| view.affinity);
    let views = to.views(node).flat_map(|(_, view)| &view.endpoints);
    let endpoints = views.map(|endpoint| endpoint.address).collect();
    let suggestions = if to.frontends.is_empty() && to.endpoint_of.is_empty() {
        suggestions(node, &to)
    } else {
        Vec::new()
    };
    (!paths.is_empty()).then(|| Explanation {
        affinity,
        endpoints,
        stale_flows: BTreeSet::new(),
        suggestions,
        conflicts: to.conflicts(node).cloned().collect(),
        is_node_address_assumed: node.is_address_assumed && involves_node,
        assumed_node_ip: node
            .assumed_ip()
            .filter(|ip| depends_on(*ip, &to, &paths, &source_ranges)),
        inferred_node_ips: if involves_node {
            node.inferred.clone()
        } else {
            BTreeSet::new()
        },
        possible_node_ips: possible_node_addresses(node, &paths),
        destination_origin: node.origin_of(to.ip),
        unreadable_rules: node.rules.unparsed_rules().count(),
        lacks_pod_address: client::lacks_pod_address(node, &to, selection),
        missing_tables: node.missing_tables.clone(),
        unread_tables: unread_tables(node),
        source_ranges,
        paths,
        to,
    })
}

fn has_node_client(paths: &[PacketPath<'_>]) -> bool {
    let mut clients = paths.iter().flat_map(|path| &path.clients);
    clients.any(|client| client.kind == ClientKind::Node)
}

/// Reports whether another address of the node could change the result: it is the destination, or
/// source ranges match it. In other cases it changes little.
fn depends_on(
    node_ip: IpAddr,
    to: &PacketDestination,
    paths: &[PacketPath<'_>],
    ranges: &[Network],
) -> bool {
    let has_ranges = ranges.iter().any(|range| !range.is_all());
    to.ip == node_ip || (has_ranges && has_node_client(paths))
}

/// Returns the addresses of endpoints outside of the pods' networks, sorted: packets to the node
/// itself take other hooks, and are not masqueraded on their way in. Empty if addresses of the node
/// or no networks of pods are known.
fn possible_node_addresses(node: &NodeRules<'_>, paths: &[PacketPath<'_>]) -> Vec<IpAddr> {
    if node.assumed_ip().is_none() || node.detector.networks.is_empty() {
        return Vec::new();
    }
    let branches = paths.iter().flat_map(|path| &path.branches);
    let endpoints = branches.filter_map(|branch| match &branch.result {
        PathResult::Served { to, .. } | PathResult::Unanswered { to, .. } => Some(to.ip()),
        _ => None,
    });
    let mut possible: BTreeSet<IpAddr> = endpoints.collect();
    possible.retain(|ip| !node.detector.has(*ip) && !node.traced_node.is_local(*ip));
    possible.into_iter().collect()
}

fn unread_tables(node: &NodeRules<'_>) -> Vec<Box<str>> {
    let tables = node.rules.unknown_tables();
    let with_rules = tables.filter(|(_, rules)| *rules > 0);
    with_rules.map(|(table, _)| table.into()).collect()
}

/// Maximum suggestions for a destination; a longer list is not read.
const MAX_SUGGESTIONS: usize = 4;

/// Returns hints at similar destinations, the most similar first.
fn suggestions(node: &NodeRules<'_>, to: &PacketDestination) -> Vec<String> {
    let ports = node.catalog.ports.iter();
    let found: BTreeSet<(u8, String)> = ports
        .filter_map(|(name, view)| suggestion(node, to, name, view))
        .collect();
    let found = found.into_iter().map(|(_, text)| text);
    found.take(MAX_SUGGESTIONS).collect()
}

/// Returns a hint at a similar destination of a service port, after the rank of its similarity.
fn suggestion(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    port_name: &PortName,
    view: &PortView,
) -> Option<(u8, String)> {
    let PortName { name, protocol } = port_name;
    let (port, is_protocol) = (to.port.get(), **protocol == *to.protocol.as_str());
    let at = || view.frontends.iter().filter(|one| one.ip == Some(to.ip));
    let has_node_port = |port| {
        let mut ports = view.frontends.iter();
        ports.any(|one| one.kind == FrontendKind::NodePort && one.port == port)
    };
    if !is_protocol {
        let is_node_port = has_node_port(port) && node.has_node_ports(to.ip);
        if is_node_port || at().any(|one| one.port == port) {
            let text = format!("{name} has this address and port with {protocol}");
            return Some((0, text));
        }
    }
    if let Some(ports) = listed(at().map(|one| one.port)) {
        let text = format!("the address belongs to {name} ({protocol} {ports})");
        return Some((1, text));
    }
    if is_protocol && has_node_port(port) {
        let consequence = match listed(&node.node_port_addresses) {
            Some(on) => format!(", but only on {on}"),
            None if node.is_address_assumed => {
                "; if the address is the node's, set --node-ip".to_owned()
            }
            None => ", but the address is not the node's".to_owned(),
        };
        return Some((2, format!("the port is a NodePort of {name}{consequence}")));
    }
    let addresses = view.endpoints.iter().map(|one| one.address);
    let own = addresses.filter(|address| address.ip() == to.ip);
    let ports = listed(own.map(|address| address.port()))?;
    // Host-network endpoints share the node's address with many other listeners.
    let is_similar = !node.traced_node.is_local(to.ip);
    is_similar.then(|| {
        let text = format!("the address belongs to an endpoint of {name} ({protocol} {ports})");
        (3, text)
    })
}

/// Renders items sorted and without duplicates; `None` without any.
fn listed<T: Ord + ToString>(items: impl IntoIterator<Item = T>) -> Option<String> {
    let items: BTreeSet<T> = items.into_iter().collect();
    let texts: Vec<_> = items.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}
