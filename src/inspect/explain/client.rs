//! Clients whose packets are traced: one representative address for each kind.
//!
//! A representative saves looking up the address of a pod to see which rules apply to pods.

use std::net::{IpAddr, SocketAddr};

use super::destination::PacketDestination;
use super::node::{AddressOrigin, NodeRules};
use crate::net::IpFamily;
use crate::rules::Network;

/// Kind of clients, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientKind {
    /// Pod that is not an endpoint of the destination.
    Pod,
    /// Process on the node itself.
    Node,
    /// Client outside of the cluster that no rule matches by its address.
    Outside,
    /// Client outside of the cluster within `loadBalancerSourceRanges`.
    AllowedSource,
    /// Client with a given address.
    Given,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub kind: ClientKind,
    pub ip: IpAddr,
    pub origin: AddressOrigin,
    /// Interface by which its packets enter the node, if known.
    pub in_interface: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientSelection {
    /// One client of every kind that can reach the destination.
    All,
    /// One client of each of these kinds.
    Kinds(Vec<ClientKind>),
    /// One client with a given address.
    Source {
        ip: IpAddr,
        in_interface: Option<Box<str>>,
    },
}

/// Returns the clients to trace; only the node itself reaches a loopback address.
pub(super) fn clients(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    selection: &ClientSelection,
) -> Vec<Client> {
    match selection {
        ClientSelection::All if to.ip.is_loopback() => of_kinds(node, to, &[ClientKind::Node]),
        ClientSelection::All => of_kinds(
            node,
            to,
            &[
                ClientKind::Pod,
                ClientKind::Node,
                ClientKind::Outside,
                ClientKind::AllowedSource,
            ],
        ),
        ClientSelection::Kinds(kinds) => of_kinds(node, to, kinds),
        ClientSelection::Source { ip, .. } if IpFamily::of(*ip) != node.family => Vec::new(),
        ClientSelection::Source { ip, in_interface } => vec![Client {
            kind: ClientKind::Given,
            ip: *ip,
            origin: AddressOrigin::Known,
            in_interface: in_interface.clone().or_else(|| node.interface_to(*ip)),
        }],
    }
}

/// Reports whether pods are selected, but no address that one could have is known.
pub(super) fn lacks_pod_address(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    selection: &ClientSelection,
) -> bool {
    let is_selected = match selection {
        ClientSelection::All => !to.ip.is_loopback(),
        ClientSelection::Kinds(kinds) => kinds.contains(&ClientKind::Pod),
        ClientSelection::Source { .. } => false,
    };
    is_selected && pod(node, to).is_none()
}

fn of_kinds(node: &NodeRules<'_>, to: &PacketDestination, kinds: &[ClientKind]) -> Vec<Client> {
    let of_kind = |kind: &ClientKind| {
        let ip = match kind {
            ClientKind::Pod => pod(node, to)?,
            // The kernel uses a local destination address as the source as well.
            ClientKind::Node if node.traced_node.is_local(to.ip) => to.ip,
            ClientKind::Node => node.ip,
            ClientKind::Outside => outside(node, to)?,
            ClientKind::AllowedSource => allowed_source(node, to)?,
            ClientKind::Given => return None,
        };
        let in_interface = match kind {
            ClientKind::Pod => outside(node, to)
                .and_then(|outside| node.interface_of_pods(outside))
                .or_else(|| node.detector.pod_interface(node.rules)),
            ClientKind::Node | ClientKind::Given => None,
            ClientKind::Outside | ClientKind::AllowedSource => {
                let known = node.interface_to(ip);
                known.or_else(|| node.detector.other_interface())
            }
        };
        Some(Client {
            kind: *kind,
            ip,
            origin: match kind {
                ClientKind::Node => node.origin_of(ip),
                _ => AddressOrigin::Invented,
            },
            in_interface,
        })
    };
    kinds.iter().filter_map(of_kind).collect()
}

/// Returns an unused address in the pods' network, or else in the network of an endpoint.
fn pod(node: &NodeRules<'_>, to: &PacketDestination) -> Option<IpAddr> {
    let endpoints = || {
        let views = node.catalog.ports.values();
        views.flat_map(|view| view.endpoints.iter().map(|one| one.address))
    };
    let own = to.views(node).flat_map(|(_, view)| &view.endpoints);
    let mut own = own.map(|one| one.address);
    let network = node.detector.networks.first().copied();
    let network = network.or_else(|| network_around(own.next().or_else(|| endpoints().next())?))?;
    let is_free = |ip: &IpAddr| !node.index.has_endpoint(*ip) && !node.traced_node.is_local(*ip);
    (2..MAX_TRIED)
        .map_while(|distance| network.nth(distance))
        .find(is_free)
}

/// Addresses that are tried; more adjacent endpoints than any test or cluster has.
const MAX_TRIED: u32 = 1 << 20;

fn network_around(address: SocketAddr) -> Option<Network> {
    let ip = address.ip();
    let length = if ip.is_ipv4() { 24 } else { 112 };
    format!("{ip}/{length}").parse().ok()
}

/// Returns a documentation address that no rule of the destination matches.
fn outside(node: &NodeRules<'_>, to: &PacketDestination) -> Option<IpAddr> {
    let is_unmatched = |ip: &IpAddr| {
        let ranges = to.views(node).flat_map(|(_, view)| &view.source_ranges);
        // A range of all addresses singles out none.
        let mut ranges = ranges.filter(|range| !range.is_all());
        !ranges.any(|range| range.contains(*ip))
            && !node.traced_node.is_local(*ip)
            && !node.detector.has(*ip)
            && *ip != to.ip
    };
    let all = EXAMPLES.iter().filter_map(|text| text.parse().ok());
    let mut own = all.filter(|ip| IpFamily::of(*ip) == node.family);
    own.find(is_unmatched)
}

/// Addresses of documentation networks: RFC 5737, RFC 3849 and RFC 9637.
const EXAMPLES: [&str; 7] = [
    "203.0.113.1",
    "198.51.100.1",
    "192.0.2.1",
    "203.0.113.254",
    "2001:db8::1",
    "3fff::1",
    "2001:db8:ffff:ffff::1",
];

/// Returns an address within the first of `loadBalancerSourceRanges`.
fn allowed_source(node: &NodeRules<'_>, to: &PacketDestination) -> Option<IpAddr> {
    let mut balanced = to
        .views(node)
        .filter(|(frontend, _)| frontend.is_load_balancer());
    let (_, view) = balanced.next()?;
    let range = view.source_ranges.iter().find(|range| !range.is_all())?;
    range.nth(1).or_else(|| range.nth(0))
}
