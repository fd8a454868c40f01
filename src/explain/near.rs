//! What is near a destination that no Service has.
//!
//! Apart because "no rule is about it" is right and helps nobody.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use super::destination::Destination;
use super::node::Node;
use crate::inspect::catalog::{FrontendKind, PortName, PortView};

/// Something that is nearly asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Near {
    /// The same address and port, by another protocol.
    OtherProtocol(PortName),
    /// The address has other ports.
    OtherPorts {
        /// Whose address it is.
        name: PortName,
        /// The ports.
        ports: BTreeSet<u16>,
    },
    /// The port is a NodePort, but not on that address.
    NodePort {
        /// Whose it is.
        name: PortName,
        /// Addresses it is on.
        on: BTreeSet<IpAddr>,
        /// Whether the node's addresses are not known, so that this may be one.
        is_unsure: bool,
    },
    /// The address is that of an endpoint, which answers at other ports.
    EndpointPorts {
        /// Whose endpoint.
        name: PortName,
        /// The ports.
        ports: BTreeSet<u16>,
    },
    /// The address is the node's, and these of its NodePorts are the nearest.
    NodePorts(Vec<(u16, PortName)>),
}

/// More would not be read.
const MOST: usize = 4;

/// What is near, the nearest first.
pub(super) fn near(node: &Node<'_>, to: &Destination) -> Vec<Near> {
    let ports = node.catalog.ports.iter();
    let found: BTreeSet<Near> = ports
        .filter_map(|(name, view)| of(node, to, name, view))
        .collect();
    let others = node_ports(node, to).filter(|_| found.is_empty());
    found.into_iter().chain(others).take(MOST).collect()
}

/// Whoever asks for a port of the node may have mistyped it.
fn node_ports(node: &Node<'_>, to: &Destination) -> Option<Near> {
    if !node.has_node_ports(to.ip) {
        return None;
    }
    let mut all = Vec::new();
    for (name, view) in &node.catalog.ports {
        let entrances = view.frontends.iter();
        let own = entrances.filter(|one| one.kind == FrontendKind::NodePort);
        all.extend(own.map(|one| (one.port, name.clone())));
    }
    all.sort();
    all.dedup();
    all.sort_by_key(|(port, _)| port.abs_diff(to.port.get()));
    all.truncate(MOST);
    (!all.is_empty()).then_some(Near::NodePorts(all))
}

fn of(node: &Node<'_>, to: &Destination, name: &PortName, view: &PortView) -> Option<Near> {
    let (asked, is_protocol) = (to.port.get(), *name.protocol == *to.protocol.as_str());
    let at = || view.frontends.iter().filter(|one| one.ip == Some(to.ip));
    let node_port = |port| {
        let mut ports = view.frontends.iter();
        ports.any(|one| one.kind == FrontendKind::NodePort && one.port == port)
    };
    if !is_protocol {
        let is_node_port = node_port(asked) && node.has_node_ports(to.ip);
        let is_there = at().any(|one| one.port == asked) || is_node_port;
        if is_there {
            return Some(Near::OtherProtocol(name.clone()));
        }
    }
    let ports: BTreeSet<u16> = at().map(|one| one.port).collect();
    if !ports.is_empty() {
        return Some(Near::OtherPorts {
            name: name.clone(),
            ports,
        });
    }
    if is_protocol && node_port(asked) {
        return Some(Near::NodePort {
            name: name.clone(),
            on: node.exposed_on.clone(),
            is_unsure: node.is_made_up && node.exposed_on.is_empty(),
        });
    }
    let addresses = view.endpoints.iter().map(|one| one.address);
    let own = addresses.filter(|address| address.ip() == to.ip);
    let ports: BTreeSet<u16> = own.map(|address| address.port()).collect();
    // On the node's own address all kinds of things listen.
    let is_there = !ports.is_empty() && !node.locality.is_local(to.ip);
    is_there.then(|| Near::EndpointPorts {
        name: name.clone(),
        ports,
    })
}

fn listed(ports: &BTreeSet<u16>) -> String {
    let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
    ports.join(", ")
}

/// `30080/tcp of shop/web:http`.
fn owned((port, name): &(u16, PortName)) -> String {
    format!("{port}/{} of {}", name.protocol, name.name)
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherProtocol(name) => {
                write!(f, "{} is there by {}", name.name, name.protocol)
            }
            Self::OtherPorts { name, ports } => {
                let ports = listed(ports);
                let PortName { name, protocol } = name;
                write!(f, "the address is that of {name}, by {protocol} {ports}")
            }
            Self::NodePort {
                name,
                on,
                is_unsure,
            } => {
                write!(f, "the port is a NodePort of {}", name.name)?;
                let on: Vec<_> = on.iter().map(ToString::to_string).collect();
                match (is_unsure, on.as_slice()) {
                    (true, _) => {
                        f.write_str(", if the address is this node's; then say so with --node-ip")
                    }
                    (false, []) => f.write_str(", but the address is none of this node's"),
                    (false, on) => write!(f, ", but only on {}", on.join(", ")),
                }
            }
            Self::EndpointPorts { name, ports } => {
                let ports = listed(ports);
                let PortName { name, protocol } = name;
                write!(
                    f,
                    "the address is that of an endpoint of {name}, by {protocol} {ports}"
                )
            }
            Self::NodePorts(ports) => {
                let ports: Vec<_> = ports.iter().map(owned).collect();
                match ports.as_slice() {
                    [one] => write!(f, "the only NodePort is {one}"),
                    all => write!(f, "the nearest NodePorts are {}", all.join(", ")),
                }
            }
        }
    }
}
