//! Destinations of packets, and the queries that lead to them.
//!
//! Names, NodePorts and addresses without a port all become destinations: an address, a port and
//! a protocol.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::node::NodeRules;
use super::query::{AddressQuery, NotFound, Query};
use crate::inspect::catalog::{
    FrontendConflict, FrontendKind, NamePattern, NoMatch, PortName, PortView, Suggestions,
    UnknownRules,
};
use crate::net::{IpFamily, Port, Protocol};

/// Destination of packets, and the service ports it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketDestination {
    /// Destination address of the packets.
    pub ip: IpAddr,
    /// Destination port of the packets.
    pub port: Port,
    /// Transport protocol of the packets.
    pub protocol: Protocol,
    /// Service ports with a frontend here: one, hardly ever more, none if no Service has it.
    pub frontends: Vec<DestinationFrontend>,
    /// Service ports of which this is an endpoint; packets to it use no Service.
    pub endpoint_of: Vec<PortName>,
}

/// Service port with a frontend at a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationFrontend {
    /// Name of the service port.
    pub name: PortName,
    /// FrontendKind of frontend at the destination.
    pub kind: FrontendKind,
}

impl DestinationFrontend {
    /// Reports whether `loadBalancerSourceRanges` may apply to it.
    pub(super) fn is_load_balancer(&self) -> bool {
        matches!(
            self.kind,
            FrontendKind::LoadBalancer | FrontendKind::External
        )
    }
}

impl PacketDestination {
    /// Looks up the service ports of a destination.
    pub(super) fn new(node: &NodeRules<'_>, ip: IpAddr, port: Port, protocol: Protocol) -> Self {
        let address = SocketAddr::new(ip, port.get());
        let is_protocol = |name: &&PortName| *name.protocol == *protocol.as_str();
        let endpoint_of = node.index.with_endpoint(address).filter(is_protocol);
        let endpoint_of = endpoint_of.cloned().collect();
        let mut frontends = Vec::new();
        for name in node
            .index
            .with_frontend_port(port.get())
            .filter(is_protocol)
        {
            let Some(view) = node.catalog.ports.get(name) else {
                continue;
            };
            let same_port = view.frontends.iter().filter(|one| one.port == port.get());
            let here = same_port.filter(|one| is_at(node, one.ip, one.kind, ip));
            frontends.extend(here.map(|frontend| DestinationFrontend {
                name: name.clone(),
                kind: frontend.kind,
            }));
        }
        Self {
            ip,
            port,
            protocol,
            frontends,
            endpoint_of,
        }
    }

    /// Returns the service ports that declare this frontend, and lost it to another Service.
    pub(super) fn conflicts<'n>(
        &'n self,
        node: &'n NodeRules<'_>,
    ) -> impl Iterator<Item = &'n FrontendConflict> {
        node.conflicts.iter().filter(|conflict| {
            let is_port = conflict.port == self.port.get();
            is_at(node, conflict.ip, conflict.kind, self.ip)
                && is_port
                && *conflict.loser.protocol == *self.protocol.as_str()
        })
    }

    /// Reports whether it is an endpoint and no frontend.
    pub(super) const fn is_endpoint(&self) -> bool {
        self.frontends.is_empty() && !self.endpoint_of.is_empty()
    }

    /// Returns its frontends with the rules of their service ports. Of several Services with the
    /// same frontend, packets meet only the rules of the first.
    pub(super) fn views<'n>(
        &'n self,
        node: &'n NodeRules<'_>,
    ) -> impl Iterator<Item = (&'n DestinationFrontend, &'n PortView)> {
        let view = move |frontend: &DestinationFrontend| node.catalog.ports.get(&frontend.name);
        let is_shared = self.frontends.len() > 1;
        let is_lost = move |frontend: &DestinationFrontend| {
            let mut conflicts = self.conflicts(node);
            is_shared && conflicts.any(|conflict| conflict.loser == frontend.name)
        };
        let frontends = self.frontends.iter();
        frontends
            .filter(move |frontend| !is_lost(frontend))
            .filter_map(move |frontend| Some((frontend, view(frontend)?)))
    }
}

/// Reports whether a frontend is at an address; one without an address is on the node.
fn is_at(
    node: &NodeRules<'_>,
    frontend_ip: Option<IpAddr>,
    kind: FrontendKind,
    ip: IpAddr,
) -> bool {
    match (frontend_ip, kind) {
        (Some(frontend_ip), _) => frontend_ip == ip,
        (None, FrontendKind::HealthCheck) => node.traced_node.is_local(ip),
        (None, _) => node.has_node_ports(ip),
    }
}

impl fmt::Display for PacketDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = SocketAddr::new(self.ip, self.port.get());
        write!(f, "{address}/{}", self.protocol)
    }
}

/// Returns the destinations of a query, with their nodes: at least one.
pub(super) fn find<'n, 'r>(
    query: &Query,
    nodes: &'n [NodeRules<'r>],
) -> Result<Vec<(&'n NodeRules<'r>, PacketDestination)>, NotFound> {
    match query {
        Query::Address(address) => by_address(address, nodes),
        Query::Name(name) => by_name(name, nodes),
    }
}

fn by_address<'n, 'r>(
    query: &AddressQuery,
    nodes: &'n [NodeRules<'r>],
) -> Result<Vec<(&'n NodeRules<'r>, PacketDestination)>, NotFound> {
    if let Some(family) = query.ip.map(IpFamily::of)
        && !nodes.iter().any(|node| node.family == family)
    {
        return Err(NotFound::Family(family));
    }
    let mut found = Vec::new();
    for node in nodes {
        let ip = match query.ip {
            Some(ip) if IpFamily::of(ip) != node.family => continue,
            Some(ip) => ip,
            None => node.node_port_ip,
        };
        for (port, protocol) in ports_at(node, ip, query) {
            found.push((node, PacketDestination::new(node, ip, port, protocol)));
        }
    }
    let has_frontends = |(_, to): &(&NodeRules<'_>, PacketDestination)| !to.frontends.is_empty();
    if query.ip.is_none() && found.iter().any(has_frontends) {
        found.retain(has_frontends);
    }
    match (query.ip, found.is_empty()) {
        (Some(ip), true) => Err(NotFound::Address(ip)),
        _ => Ok(found),
    }
}

/// Returns the ports and protocols of an address that a query selects.
fn ports_at(node: &NodeRules<'_>, ip: IpAddr, query: &AddressQuery) -> BTreeSet<(Port, Protocol)> {
    if let (Some(port), Some(protocol)) = (query.port, query.protocol) {
        return [(port, protocol)].into();
    }
    let mut selected = BTreeSet::new();
    for (name, view) in &node.catalog.ports {
        let Some(protocol) = Protocol::from_iptables(&name.protocol) else {
            continue;
        };
        let frontends = view.frontends.iter().filter(|frontend| match frontend.ip {
            Some(frontend_ip) => frontend_ip == ip,
            // A query of the node's address alone does not select every NodePort.
            None => query.port.is_some() && node.traced_node.is_local(ip),
        });
        let endpoints = view.endpoints.iter().map(|one| one.address);
        let own = endpoints.filter(|address| address.ip() == ip);
        let ports = frontends.map(|frontend| frontend.port);
        let ports = ports.chain(own.map(|address| address.port()));
        let ports = ports.filter_map(Port::new);
        let ports = ports.filter(|port| query.port.is_none_or(|wanted| wanted == *port));
        if query.protocol.is_none_or(|wanted| wanted == protocol) {
            selected.extend(ports.map(|port| (port, protocol)));
        }
    }
    if let (true, Some(port)) = (selected.is_empty(), query.port) {
        selected.insert((port, query.protocol.unwrap_or(Protocol::Tcp)));
    }
    selected
}

fn by_name<'n, 'r>(
    query: &NamePattern,
    nodes: &'n [NodeRules<'r>],
) -> Result<Vec<(&'n NodeRules<'r>, PacketDestination)>, NotFound> {
    let all = || nodes.iter().flat_map(|node| node.catalog.ports.iter());
    let services = |is: &dyn Fn(&PortName, &PortView) -> bool| -> BTreeSet<_> {
        let matching = all().filter(|(name, view)| is(name, view));
        matching
            .map(|(name, _)| format!("{}/{}", name.namespace(), name.service()))
            .collect()
    };
    // Of two Services with the name, only one may have the port.
    let (with_port, with_name) = (
        services(&|name, view| query.fits(name, view.numbers())),
        services(&|name, _| query.fits_service(name)),
    );
    let known = all().map(|(name, view)| (name, view.numbers()));
    let unknown = nodes.iter().map(|node| node.catalog.unknown);
    let unknown = unknown.fold(UnknownRules::default(), UnknownRules::plus);
    if let Some(missing) = NoMatch::of(query, &known, unknown)
        && with_name.len() < 2
    {
        return Err(missing.into());
    }
    let several = if with_port.is_empty() {
        with_name
    } else {
        with_port
    };
    if several.len() > 1 {
        return Err(NotFound::Ambiguous {
            query: query.to_string(),
            similar: Suggestions(several),
        });
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for node in nodes {
        let ports = node.catalog.ports.iter();
        for (name, view) in ports.filter(|(name, view)| query.fits(name, view.numbers())) {
            for (ip, port, protocol) in frontends(node, name, view).chain(lost(node, name)) {
                if seen.insert((node.family, ip, port, protocol)) {
                    found.push((node, PacketDestination::new(node, ip, port, protocol)));
                }
            }
        }
    }
    Ok(found)
}

/// Returns the frontends that a service port declares and other Services have.
fn lost<'v>(
    node: &'v NodeRules<'_>,
    name: &'v PortName,
) -> impl Iterator<Item = (IpAddr, Port, Protocol)> + 'v {
    let protocol = Protocol::from_iptables(&name.protocol);
    let lost = node.conflicts.iter();
    let lost = lost.filter(move |conflict| conflict.loser == *name);
    lost.filter_map(move |conflict| {
        let port = Port::new(conflict.port)?;
        Some((node.address_of(conflict), port, protocol?))
    })
}

fn frontends<'v>(
    node: &'v NodeRules<'_>,
    name: &'v PortName,
    view: &'v PortView,
) -> impl Iterator<Item = (IpAddr, Port, Protocol)> + 'v {
    let protocol = Protocol::from_iptables(&name.protocol);
    view.frontends.iter().filter_map(move |frontend| {
        let ip = frontend.ip;
        let ip = ip.unwrap_or_else(|| node.frontend_ip(frontend.kind));
        Some((ip, Port::new(frontend.port)?, protocol?))
    })
}
