//! Destinations of packets, and the queries that lead to them.
//!
//! Names, NodePorts and addresses without a port all become destinations: an address, a port and
//! a protocol.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::Uri;

use super::node::NodeRules;
use crate::inspect::catalog::{
    self, FrontendConflict, FrontendKind, InvalidName, NamePattern, NoMatch, PortName, PortView,
    Suggestions, UnknownRules,
};
use crate::net::{IpFamily, Port, Protocol, parse_ip};

/// Destination of packets, and the service ports it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketDestination {
    pub ip: IpAddr,
    pub port: Port,
    pub protocol: Protocol,
    /// Service ports with a frontend here: one, hardly ever more, none if no Service has it.
    pub frontends: Vec<DestinationFrontend>,
    /// Service ports of which this is an endpoint; packets to it use no Service.
    pub endpoint_of: Vec<PortName>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationFrontend {
    pub name: PortName,
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
            let all = frontends(node, name, view).chain(lost(node, name));
            let is_cluster_ip = |kind| kind == FrontendKind::ClusterIp;
            let wanted = all.filter(|(kind, _)| !query.is_dns || is_cluster_ip(*kind));
            for (_, (ip, port, protocol)) in wanted {
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
) -> impl Iterator<Item = (FrontendKind, (IpAddr, Port, Protocol))> + 'v {
    let protocol = Protocol::from_iptables(&name.protocol);
    let lost = node.conflicts.iter();
    let lost = lost.filter(move |conflict| conflict.loser == *name);
    lost.filter_map(move |conflict| {
        let port = Port::new(conflict.port)?;
        Some((conflict.kind, (node.address_of(conflict), port, protocol?)))
    })
}

fn frontends<'v>(
    node: &'v NodeRules<'_>,
    name: &'v PortName,
    view: &'v PortView,
) -> impl Iterator<Item = (FrontendKind, (IpAddr, Port, Protocol))> + 'v {
    let protocol = Protocol::from_iptables(&name.protocol);
    view.frontends.iter().filter_map(move |frontend| {
        let ip = frontend.ip;
        let ip = ip.unwrap_or_else(|| node.frontend_ip(frontend.kind));
        Some((frontend.kind, (ip, Port::new(frontend.port)?, protocol?)))
    })
}

/// `ADDRESS:PORT[/PROTO]`, `ADDRESS`, `:NODEPORT[/PROTO]`, a name as in [`NamePattern`], or a URL
/// with an address or such a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    Address(AddressQuery),
    Name(NamePattern),
}

/// Destination as far as it was given: at least the address or the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressQuery {
    /// `None`: any address of the node.
    pub ip: Option<IpAddr>,
    /// `None`: every port that Services have at the address.
    pub port: Option<Port>,
    /// `None`: every protocol that Services have there, or TCP if there is none.
    pub protocol: Option<Protocol>,
}

/// Reason why a text is not a valid query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuery {
    /// Address with a port that is not a number from 1 to 65535.
    #[error("`{0}` is not a valid port (1-65535)")]
    Port(String),
    #[error(
        "`{0}` is not a valid address or Service name\n\
         hint: examples are 10.96.0.10:80, [fd00::1]:53/udp, prod/web:http and http://web.prod.svc"
    )]
    Form(String),
    #[error("`{0}` is not needed: the destination has a port")]
    SecondPort(String),
    #[error(transparent)]
    Protocol(InvalidName),
}

/// Reason why a query cannot be limited to a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableNamespace {
    #[error(transparent)]
    Other(#[from] catalog::NamespaceMismatch),
    #[error("an address has no namespace\nhint: leave --namespace out")]
    Address,
}

impl FromStr for Query {
    type Err = InvalidQuery;

    fn from_str(text: &str) -> Result<Self, InvalidQuery> {
        let form = || InvalidQuery::Form(text.to_owned());
        if text.contains("://") {
            return Self::of_url(text).ok_or_else(form);
        }
        let (rest, protocol) = split_protocol(text);
        if let Some(rest) = rest.strip_prefix('[') {
            let (inside, after) = rest.split_once(']').unwrap_or_default();
            let ip = parse_ip(inside).ok_or_else(form)?;
            let port = match after.strip_prefix(':') {
                Some(number) => Some(port(number)?),
                None if after.is_empty() => None,
                None => return Err(form()),
            };
            return Ok(Self::address(Some(ip), port, protocol));
        }
        if let Some(ip) = parse_ip(rest) {
            return Ok(Self::address(Some(ip), None, protocol));
        }
        if let Some((before, after)) = rest.rsplit_once(':') {
            let ip = parse_ip(before);
            if ip.is_some() || before.is_empty() {
                return Ok(Self::address(ip, Some(port(after)?), protocol));
            }
        }
        let first = rest.split([':', '/']).next().unwrap_or(rest);
        if is_dotted_number(first) {
            return Err(form());
        }
        parse_name(text, text).map(Self::Name)
    }
}

/// Parses a name; an error quotes the text that was typed.
fn parse_name(name: &str, typed: &str) -> Result<NamePattern, InvalidQuery> {
    name.parse().map_err(|error| match error {
        InvalidName::Form(_) => InvalidQuery::Form(typed.to_owned()),
        protocol @ InvalidName::Protocol(_) => InvalidQuery::Protocol(protocol),
    })
}

impl Query {
    /// Parses a URL. The scheme gives the port if the URL has none, and may be a protocol.
    fn of_url(text: &str) -> Option<Self> {
        let url: Uri = text.parse().ok()?;
        let scheme = url.scheme_str()?;
        let port = match (url.port_u16(), scheme) {
            (Some(port), _) => port,
            (None, "http" | "ws") => 80,
            (None, "https" | "wss") => 443,
            (None, _) => return None,
        };
        let protocol = Protocol::from_iptables(scheme).unwrap_or(Protocol::Tcp);
        let destination = format!("{}:{port}/{protocol}", url.host()?);
        destination.parse().ok()
    }

    /// Returns the query with a port, and perhaps its protocol, as in `http` or `53/udp`.
    ///
    /// # Errors
    ///
    /// The port is invalid, or the query has one.
    pub fn with_port(&self, text: &str) -> Result<Self, InvalidQuery> {
        match self {
            Self::Name(name) if name.port.is_none() => {
                let with_port = parse_name(&format!("{name}:{text}"), text)?;
                let is_dns = name.is_dns;
                Ok(Self::Name(NamePattern {
                    is_dns,
                    ..with_port
                }))
            }
            Self::Address(address) if address.port.is_none() => {
                let (number, protocol) = split_protocol(text);
                Ok(Self::Address(AddressQuery {
                    port: Some(port(number)?),
                    protocol: protocol.or(address.protocol),
                    ..*address
                }))
            }
            _ => Err(InvalidQuery::SecondPort(text.to_owned())),
        }
    }

    /// Returns the query limited to a namespace.
    ///
    /// # Errors
    ///
    /// If it is an address, or a name with another namespace.
    pub fn within(&self, namespace: &str) -> Result<Self, UnusableNamespace> {
        match self {
            Self::Name(name) => Ok(Self::Name(name.within(namespace)?)),
            Self::Address(_) => Err(UnusableNamespace::Address),
        }
    }

    fn address(ip: Option<IpAddr>, port: Option<Port>, protocol: Option<Protocol>) -> Self {
        Self::Address(AddressQuery { ip, port, protocol })
    }
}

/// Reports whether a text consists of digits and dots, as no name of a Service does.
fn is_dotted_number(text: &str) -> bool {
    text.contains('.') && text.bytes().all(|c| c == b'.' || c.is_ascii_digit())
}

/// Splits off a protocol after the last slash.
fn split_protocol(text: &str) -> (&str, Option<Protocol>) {
    let Some((rest, last)) = text.rsplit_once('/') else {
        return (text, None);
    };
    match Protocol::from_iptables(&last.to_ascii_lowercase()) {
        Some(protocol) => (rest, Some(protocol)),
        None => (text, None),
    }
}

fn port(text: &str) -> Result<Port, InvalidQuery> {
    text.parse()
        .map_err(|_| InvalidQuery::Port(text.to_owned()))
}

/// Reason why nothing can be explained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    #[error(transparent)]
    Name(#[from] NoMatch),
    #[error("more than one Service is named `{query}`{similar}")]
    Ambiguous { query: String, similar: Suggestions },
    /// Address of an IP family of which no rules were given.
    #[error("no {0} rules in the input\nhint: add the output of {program} with --from-save", program = .0.save_program())]
    Family(IpFamily),
    /// Address without a port that neither a Service nor an endpoint has.
    #[error(
        "{0} is not the address of a Service or an endpoint\n\
         hint: add a port to trace packets to it anyway"
    )]
    Address(IpAddr),
    /// Only pods are selected, and neither their network nor an endpoint is known.
    #[error(
        "cannot determine the addresses of pods\n\
         hint: set --source to one; with manifests or a cluster, set --cluster-cidr to their network"
    )]
    Pods,
    /// No client of the selected kind or family can reach the destination.
    #[error(
        "no such client can reach this destination\n\
         hint: set --source to an address of the destination's IP family"
    )]
    Client,
}
