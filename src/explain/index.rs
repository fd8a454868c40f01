//! Whose an address is, found without asking every service port.
//!
//! Apart because one Service may have thousands of ports, and each is a destination of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use crate::inspect::catalog::{Catalog, PortName};

/// Service ports by what asks for them.
#[derive(Debug, Default)]
pub(super) struct Index {
    entered: BTreeMap<u16, BTreeSet<PortName>>,
    answering: BTreeMap<SocketAddr, BTreeSet<PortName>>,
}

impl Index {
    pub(super) fn of(catalog: &Catalog) -> Self {
        let mut index = Self::default();
        for (name, view) in &catalog.ports {
            for entrance in &view.frontends {
                let names = index.entered.entry(entrance.port).or_default();
                names.insert(name.clone());
            }
            for endpoint in &view.endpoints {
                let names = index.answering.entry(endpoint.address).or_default();
                names.insert(name.clone());
            }
        }
        index
    }

    /// Those that are entered at a port, sorted.
    pub(super) fn entered_at(&self, port: u16) -> impl Iterator<Item = &PortName> {
        self.entered.get(&port).into_iter().flatten()
    }

    /// Those that an endpoint answers for, sorted.
    pub(super) fn answered_by(&self, address: SocketAddr) -> impl Iterator<Item = &PortName> {
        self.answering.get(&address).into_iter().flatten()
    }

    /// Whether an endpoint has the address.
    pub(super) fn has_endpoint(&self, ip: IpAddr) -> bool {
        let ports = SocketAddr::new(ip, 0)..=SocketAddr::new(ip, u16::MAX);
        self.answering.range(ports).next().is_some()
    }
}
