//! Which service ports are asked for.
//!
//! Apart because it is the same for every kind of output.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::beside::Beside;
use super::row::Row;
use crate::config::{AddressPattern, ServicesArgs, Unusable};
use crate::inspect::catalog::{FrontendConflict, FrontendView, NoMatches, PortName, PortQuery};
use crate::net::IpFamily;

/// What is asked for.
pub(super) struct Filter {
    asked: PortQuery,
    address: Option<AddressPattern>,
}

impl Filter {
    /// As the flags say.
    pub(super) fn new(args: &ServicesArgs) -> Result<Self, Unusable> {
        Ok(Self {
            asked: args.which.asked()?,
            address: args.address,
        })
    }

    /// Whether everything is asked for.
    pub(super) fn is_all(&self) -> bool {
        self.asked.is_all() && self.address.is_none()
    }

    /// The rows that are asked for.
    pub(super) fn chosen(&self, mut rows: Vec<Row>, node: &BTreeSet<IpAddr>) -> Vec<Row> {
        rows.retain(|row| {
            self.asked.fits(&row.name, &row.numbers())
                && self
                    .address
                    .is_none_or(|pattern| is_reached(row, pattern, node))
        });
        rows
    }

    /// That each name is that of a row, or of a service port that another one leaves without rules.
    pub(super) fn check(&self, rows: &[Row], beside: &Beside) -> Result<(), NoMatches> {
        let rows = rows.iter();
        let known = rows.map(|row| (&row.name, row.numbers().collect::<Vec<_>>()));
        let losers = beside.conflicts(self);
        let losers = losers.map(|(_, conflict)| (&conflict.loser, vec![conflict.port]));
        let known: Vec<_> = known.chain(losers).collect();
        self.asked.check(&known.iter().cloned())
    }

    /// Reports whether a conflict is about what is asked for.
    pub(super) fn concerns(&self, conflict: &FrontendConflict) -> bool {
        let owner = PortName {
            name: conflict.owner.clone(),
            protocol: conflict.loser.protocol.clone(),
        };
        let numbers = [conflict.port];
        let is_named =
            self.asked.fits(&conflict.loser, &numbers) || self.asked.fits(&owner, &numbers);
        let is_there = |pattern: AddressPattern| {
            pattern.ip.is_none_or(|ip| conflict.ip == Some(ip))
                && pattern.port.is_none_or(|port| conflict.port == port)
        };
        is_named && self.address.is_none_or(is_there)
    }
}

/// Whether traffic to the address enters there, or is answered from it.
fn is_reached(row: &Row, pattern: AddressPattern, node: &BTreeSet<IpAddr>) -> bool {
    row.views().any(|(family, view)| {
        let is_ip = |ip| pattern.ip.is_none_or(|asked| asked == ip);
        let is_port = |port| pattern.port.is_none_or(|asked| asked == port);
        let is_node = pattern
            .ip
            .is_none_or(|ip| IpFamily::of(ip) == family && is_of_node(ip, pattern.port, node));
        let enters = |entrance: &FrontendView| entrance.ip.map_or(is_node, is_ip);
        let mut entrances = view.frontends.iter();
        let mut endpoints = view.endpoints.iter().map(|one| one.address);
        entrances.any(|entrance| enters(entrance) && is_port(entrance.port))
            || endpoints.any(|one| is_ip(one.ip()) && is_port(one.port()))
    })
}

/// Whether an address is the node's. Where nobody knows the node's addresses, one with a port may
/// be; without, all NodePorts would be shown for the address of a Service.
fn is_of_node(ip: IpAddr, port: Option<u16>, node: &BTreeSet<IpAddr>) -> bool {
    if node.is_empty() {
        port.is_some()
    } else {
        node.contains(&ip)
    }
}
