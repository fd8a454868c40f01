//! Explanations: everything that is reported about one destination.
//!
//! Finds the destinations of a query, and traces the packets of each kind of client.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::client::{self, ClientSelection};
use super::destination::{self, NotFound, PacketDestination, Query};
use super::node::{AddressOrigin, NodeRules};
use super::path::PacketPath;
use super::trace::trace;
use crate::inspect::catalog::FrontendConflict;
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
    /// The assumed address of the node, if none is known. Packets from or to an endpoint that has
    /// the real one would traverse other rules.
    pub assumed_node_ip: Option<IpAddr>,
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
    let balanced = to
        .views(node)
        .find(|(frontend, _)| frontend.is_load_balancer());
    let source_ranges = balanced.map(|(_, view)| view.source_ranges.clone());
    let source_ranges = source_ranges.unwrap_or_default();
    let affinity = to.views(node).find_map(|(_, view)| view.affinity);
    let views = to.views(node).flat_map(|(_, view)| &view.endpoints);
    let endpoints = views.map(|endpoint| endpoint.address).collect();
    (!paths.is_empty()).then(|| Explanation {
        affinity,
        endpoints,
        stale_flows: BTreeSet::new(),
        conflicts: to.conflicts(node).cloned().collect(),
        assumed_node_ip: node.assumed_ip(),
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

fn unread_tables(node: &NodeRules<'_>) -> Vec<Box<str>> {
    let tables = node.rules.unknown_tables();
    let with_rules = tables.filter(|(_, rules)| *rules > 0);
    with_rules.map(|(table, _)| table.into()).collect()
}
