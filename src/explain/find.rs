//! What a question is about: names and half addresses become destinations.
//!
//! Apart because who asks for what is not there deserves to hear what is.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::destination::Destination;
use super::node::Node;
use super::question::{Address, Question};
use crate::inspect::catalog::{
    FrontendKind, NamePattern, NoMatch, PortName, PortView, Suggestions,
};
use crate::net::{IpFamily, Port, Protocol};

/// Why nothing can be explained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The name fits nothing.
    #[error(transparent)]
    Name(#[from] NoMatch),
    /// Several namespaces have a Service of that name.
    #[error("more than one Service is called `{asked}`{similar}")]
    Ambiguous {
        /// As asked for.
        asked: String,
        /// Their names.
        similar: Suggestions,
    },
    /// The rules that were given are of the other family alone.
    #[error("no {0} rules were given\nhint: give a dump of {program} with --from-save, too", program = save_program(*.0))]
    Family(IpFamily),
    /// An address without a port, where neither a Service nor an endpoint is.
    #[error(
        "no Service is at {0}, nor any endpoint\nhint: give a port to see what becomes of it, too"
    )]
    Address(IpAddr),
    /// Only pods are wanted, and neither their network nor an endpoint is known.
    #[error(
        "which addresses are pods is not known\nhint: give one with --source; with manifests or a \
         cluster, --cluster-cidr gives their network"
    )]
    Pods,
    /// Nobody of the wanted kind or family can ask there.
    #[error(
        "no such client can ask there\nhint: give one of the destination's family with --source"
    )]
    Client,
}

const fn save_program(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "iptables-save",
        IpFamily::V6 => "ip6tables-save",
    }
}

/// The destinations that a question is about, with their nodes: at least one.
pub(super) fn find<'n, 'r>(
    question: &Question,
    nodes: &'n [Node<'r>],
) -> Result<Vec<(&'n Node<'r>, Destination)>, NotFound> {
    match question {
        Question::Address(address) => by_address(address, nodes),
        Question::Name(name) => by_name(name, nodes),
    }
}

fn by_address<'n, 'r>(
    asked: &Address,
    nodes: &'n [Node<'r>],
) -> Result<Vec<(&'n Node<'r>, Destination)>, NotFound> {
    if let Some(family) = asked.ip.map(IpFamily::of)
        && !nodes.iter().any(|node| node.family == family)
    {
        return Err(NotFound::Family(family));
    }
    let mut found = Vec::new();
    for node in nodes {
        let ip = match asked.ip {
            Some(ip) if IpFamily::of(ip) != node.family => continue,
            Some(ip) => ip,
            None => node.exposed_ip,
        };
        for (port, protocol) in doors(node, ip, asked) {
            found.push((node, Destination::new(node, ip, port, protocol)));
        }
    }
    let has_subjects = |(_, to): &(&Node<'_>, Destination)| !to.subjects.is_empty();
    if asked.ip.is_none() && found.iter().any(has_subjects) {
        found.retain(has_subjects);
    }
    match (asked.ip, found.is_empty()) {
        (Some(ip), true) => Err(NotFound::Address(ip)),
        _ => Ok(found),
    }
}

/// The ports and protocols of an address that are meant.
fn doors(node: &Node<'_>, ip: IpAddr, asked: &Address) -> BTreeSet<(Port, Protocol)> {
    if let (Some(port), Some(protocol)) = (asked.port, asked.protocol) {
        return [(port, protocol)].into();
    }
    let mut doors = BTreeSet::new();
    for (name, view) in &node.catalog.ports {
        let Some(protocol) = Protocol::from_iptables(&name.protocol) else {
            continue;
        };
        let entrances = view.frontends.iter().filter(|entrance| match entrance.ip {
            Some(known) => known == ip,
            // All of the node's ports are not what who asks for its address wants.
            None => asked.port.is_some() && node.locality.is_local(ip),
        });
        let endpoints = view.endpoints.iter().map(|one| one.address);
        let own = endpoints.filter(|address| address.ip() == ip);
        let ports = entrances.map(|entrance| entrance.port);
        let ports = ports.chain(own.map(|address| address.port()));
        let ports = ports.filter_map(Port::new);
        let ports = ports.filter(|port| asked.port.is_none_or(|asked| asked == *port));
        if asked.protocol.is_none_or(|asked| asked == protocol) {
            doors.extend(ports.map(|port| (port, protocol)));
        }
    }
    if let (true, Some(port)) = (doors.is_empty(), asked.port) {
        doors.insert((port, asked.protocol.unwrap_or(Protocol::Tcp)));
    }
    doors
}

fn by_name<'n, 'r>(
    asked: &NamePattern,
    nodes: &'n [Node<'r>],
) -> Result<Vec<(&'n Node<'r>, Destination)>, NotFound> {
    let all = || nodes.iter().flat_map(|node| node.catalog.ports.iter());
    let names = |is: &dyn Fn(&PortName, &PortView) -> bool| -> BTreeSet<_> {
        let wanted = all().filter(|(name, view)| is(name, view));
        wanted
            .map(|(name, _)| format!("{}/{}", name.namespace(), name.service()))
            .collect()
    };
    // A port may tell two of one name apart.
    let (meant, called) = (
        names(&|name, view| asked.fits(name, view.numbers())),
        names(&|name, _| asked.fits_service(name)),
    );
    let known = all().map(|(name, view)| (name, view.numbers()));
    if let Some(missing) = NoMatch::of(asked, &known)
        && called.len() < 2
    {
        return Err(missing.into());
    }
    let several = if meant.is_empty() { called } else { meant };
    if several.len() > 1 {
        return Err(NotFound::Ambiguous {
            asked: asked.to_string(),
            similar: Suggestions(several),
        });
    }
    let (mut found, mut met) = (Vec::new(), BTreeSet::new());
    for node in nodes {
        let ports = node.catalog.ports.iter();
        for (name, view) in ports.filter(|(name, view)| asked.fits(name, view.numbers())) {
            for (ip, port, protocol) in ways_in(node, name, view).chain(lost_by(node, name)) {
                if met.insert((node.family, ip, port, protocol)) {
                    found.push((node, Destination::new(node, ip, port, protocol)));
                }
            }
        }
    }
    Ok(found)
}

/// The frontends that a service port asks for and other Services have.
fn lost_by<'v>(
    node: &'v Node<'_>,
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

fn ways_in<'v>(
    node: &'v Node<'_>,
    name: &'v PortName,
    view: &'v PortView,
) -> impl Iterator<Item = (IpAddr, Port, Protocol)> + 'v {
    let protocol = Protocol::from_iptables(&name.protocol);
    view.frontends.iter().filter_map(move |entrance| {
        let of_node = match entrance.kind {
            FrontendKind::HealthCheck => node.ip,
            _ => node.exposed_ip,
        };
        let ip = entrance.ip.unwrap_or(of_node);
        Some((ip, Port::new(entrance.port)?, protocol?))
    })
}
