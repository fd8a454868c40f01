//! Where packets are followed to, and whose that is.
//!
//! Apart because names, NodePorts and addresses all become one of these.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::node::Node;
use crate::inspect::catalog::{FrontendConflict, FrontendKind, PortName, PortView};
use crate::net::{Port, Protocol};

/// A destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The address that is asked.
    pub ip: IpAddr,
    /// The port.
    pub port: Port,
    /// The protocol.
    pub protocol: Protocol,
    /// The service ports that are reached there: one, hardly ever more, none if it is nobody's.
    pub subjects: Vec<Subject>,
    /// The service ports for which it is who answers: whoever asks it himself asks no Service.
    pub endpoint_of: Vec<PortName>,
}

/// A service port that is reached by a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its name.
    pub name: PortName,
    /// As what.
    pub kind: FrontendKind,
}

impl Subject {
    /// Whether source ranges may hold there.
    pub(super) fn is_load_balancer(&self) -> bool {
        matches!(
            self.kind,
            FrontendKind::LoadBalancer | FrontendKind::External
        )
    }
}

impl Destination {
    /// The destination and whose it is.
    pub(super) fn new(node: &Node<'_>, ip: IpAddr, port: Port, protocol: Protocol) -> Self {
        let address = SocketAddr::new(ip, port.get());
        let is_protocol = |name: &&PortName| *name.protocol == *protocol.as_str();
        let endpoint_of = node.index.answered_by(address).filter(is_protocol);
        let endpoint_of = endpoint_of.cloned().collect();
        let mut subjects = Vec::new();
        for name in node.index.entered_at(port.get()).filter(is_protocol) {
            let Some(view) = node.catalog.ports.get(name) else {
                continue;
            };
            let entrances = view.frontends.iter().filter(|one| one.port == port.get());
            let here = entrances.filter(|one| match (one.ip, one.kind) {
                (Some(asked), _) => asked == ip,
                (None, FrontendKind::HealthCheck) => node.locality.is_local(ip),
                (None, _) => node.has_node_ports(ip),
            });
            subjects.extend(here.map(|entrance| Subject {
                name: name.clone(),
                kind: entrance.kind,
            }));
        }
        Self {
            ip,
            port,
            protocol,
            subjects,
            endpoint_of,
        }
    }

    /// Claims to it that lost to the Service that has it.
    pub(super) fn conflicts<'n>(
        &'n self,
        node: &'n Node<'_>,
    ) -> impl Iterator<Item = &'n FrontendConflict> {
        node.conflicts.iter().filter(|conflict| {
            let is_here = match (conflict.ip, conflict.kind) {
                (Some(ip), _) => ip == self.ip,
                (None, FrontendKind::HealthCheck) => node.locality.is_local(self.ip),
                (None, _) => node.has_node_ports(self.ip),
            };
            let is_port = conflict.port == self.port.get();
            is_here && is_port && *conflict.loser.protocol == *self.protocol.as_str()
        })
    }

    /// Whether it is nothing but an endpoint.
    pub(super) const fn is_endpoint(&self) -> bool {
        self.subjects.is_empty() && !self.endpoint_of.is_empty()
    }

    /// What is known of its service ports.
    pub(super) fn views<'n>(
        &'n self,
        node: &'n Node<'_>,
    ) -> impl Iterator<Item = (&'n Subject, &'n PortView)> {
        let view = move |subject: &Subject| node.catalog.ports.get(&subject.name);
        self.subjects
            .iter()
            .filter_map(move |subject| Some((subject, view(subject)?)))
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = SocketAddr::new(self.ip, self.port.get());
        write!(f, "{address}/{}", self.protocol)
    }
}
