//! Who asks, and addresses that stand for everybody of a kind.
//!
//! Apart because nobody wants to look up a pod's address to learn what pods meet.

use std::net::{IpAddr, SocketAddr};

use super::destination::Destination;
use super::node::Node;
use crate::net::IpFamily;
use crate::rules::Network;

/// A kind of clients. They are shown in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// A pod, none of those that answer.
    Pod,
    /// A program on the node itself.
    Node,
    /// Somebody else, whom no rule mentions.
    Outside,
    /// Somebody else, whom the load balancer's source ranges admit.
    Admitted,
    /// Whoever was named.
    Given,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Of which kind.
    pub who: Who,
    /// Its address.
    pub ip: IpAddr,
    /// Where its packets come in, if that is known.
    pub in_interface: Option<Box<str>>,
}

/// Whose packets are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Those of every kind.
    All,
    /// Those of some kinds.
    Kinds(Vec<Who>),
    /// Those of one client.
    Source {
        /// Its address.
        ip: IpAddr,
        /// Where its packets come in, if that is known.
        in_interface: Option<Box<str>>,
    },
}

/// The clients to follow to a destination; nobody outside reaches a loopback address.
pub(super) fn clients(node: &Node<'_>, to: &Destination, wanted: &Wanted) -> Vec<Client> {
    match wanted {
        Wanted::All if to.ip.is_loopback() => of_kinds(node, to, &[Who::Node]),
        Wanted::All => of_kinds(
            node,
            to,
            &[Who::Pod, Who::Node, Who::Outside, Who::Admitted],
        ),
        Wanted::Kinds(kinds) => of_kinds(node, to, kinds),
        Wanted::Source { ip, .. } if IpFamily::of(*ip) != node.family => Vec::new(),
        Wanted::Source { ip, in_interface } => vec![Client {
            who: Who::Given,
            ip: *ip,
            in_interface: in_interface.clone(),
        }],
    }
}

/// Whether pods are wanted, and nobody knows an address that one could have.
pub(super) fn lacks_pods(node: &Node<'_>, to: &Destination, wanted: &Wanted) -> bool {
    let is_wanted = match wanted {
        Wanted::All => !to.ip.is_loopback(),
        Wanted::Kinds(kinds) => kinds.contains(&Who::Pod),
        Wanted::Source { .. } => false,
    };
    is_wanted && pod(node, to).is_none()
}

fn of_kinds(node: &Node<'_>, to: &Destination, kinds: &[Who]) -> Vec<Client> {
    let of_kind = |who: &Who| {
        let ip = match who {
            Who::Pod => pod(node, to)?,
            // The kernel takes the address that is asked, if that is its own.
            Who::Node if node.locality.is_local(to.ip) => to.ip,
            Who::Node => node.ip,
            Who::Outside => outside(node, to)?,
            Who::Admitted => admitted(node, to)?,
            Who::Given => return None,
        };
        let in_interface = match who {
            Who::Pod => node.detector.pod_interface(node.rules),
            Who::Node | Who::Given => None,
            Who::Outside | Who::Admitted => node.detector.other_interface(),
        };
        Some(Client {
            who: *who,
            ip,
            in_interface,
        })
    };
    kinds.iter().filter_map(of_kind).collect()
}

/// An address in the pods' network, or else in that of some endpoint, that nobody else has.
fn pod(node: &Node<'_>, to: &Destination) -> Option<IpAddr> {
    let endpoints = || {
        let views = node.catalog.ports.values();
        views.flat_map(|view| view.endpoints.iter().map(|one| one.address))
    };
    let own = to.views(node).flat_map(|(_, view)| &view.endpoints);
    let mut own = own.map(|one| one.address);
    let network = node.detector.networks.first().copied();
    let network = network.or_else(|| around(own.next().or_else(|| endpoints().next())?))?;
    let is_free = |ip: &IpAddr| !node.index.has_endpoint(*ip) && !node.locality.is_local(*ip);
    (2..MOST_PODS)
        .map_while(|distance| network.nth(distance))
        .find(is_free)
}

/// More endpoints side by side than any test or cluster has.
const MOST_PODS: u32 = 1 << 20;

fn around(address: SocketAddr) -> Option<Network> {
    let ip = address.ip();
    let length = if ip.is_ipv4() { 24 } else { 112 };
    format!("{ip}/{length}").parse().ok()
}

/// An example's address that no rule about the destination mentions.
fn outside(node: &Node<'_>, to: &Destination) -> Option<IpAddr> {
    let is_unknown = |ip: &IpAddr| {
        let ranges = to.views(node).flat_map(|(_, view)| &view.source_ranges);
        // Who admits everybody mentions nobody.
        let mut ranges = ranges.filter(|range| !range.is_all());
        !ranges.any(|range| range.contains(*ip))
            && !node.locality.is_local(*ip)
            && !node.detector.has(*ip)
            && *ip != to.ip
    };
    let all = EXAMPLES.iter().filter_map(|text| text.parse().ok());
    let mut own = all.filter(|ip| IpFamily::of(*ip) == node.family);
    own.find(is_unknown)
}

/// Networks for examples: RFC 5737, RFC 3849 and RFC 9637.
const EXAMPLES: [&str; 7] = [
    "203.0.113.1",
    "198.51.100.1",
    "192.0.2.1",
    "203.0.113.254",
    "2001:db8::1",
    "3fff::1",
    "2001:db8:ffff:ffff::1",
];

/// An address that the first source range admits.
fn admitted(node: &Node<'_>, to: &Destination) -> Option<IpAddr> {
    let mut balanced = to
        .views(node)
        .filter(|(subject, _)| subject.is_load_balancer());
    let (_, view) = balanced.next()?;
    let range = view.source_ranges.iter().find(|range| !range.is_all())?;
    range.nth(1).or_else(|| range.nth(0))
}
