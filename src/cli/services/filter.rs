//! Which service ports are asked for.
//!
//! Apart because it is the same for every kind of output.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::row::Row;
use crate::catalog::{Asked, Entrance, Missing};
use crate::config::{AddressPattern, ServicesArgs, Unusable};

/// What is asked for.
pub(super) struct Filter {
    asked: Asked,
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

    /// That each name is that of a row.
    pub(super) fn check(&self, rows: &[Row]) -> Result<(), Missing> {
        let known = rows.iter().map(|row| (&row.name, row.numbers()));
        self.asked.check(&known)
    }
}

/// Every Service's name with its namespace, for completion: what is typed of a name already is the
/// shell's business.
pub(super) fn names(rows: &[Row], args: &ServicesArgs) -> BTreeSet<String> {
    let namespace = args.which.namespace.as_deref();
    let is_there = |row: &&Row| namespace.is_none_or(|asked| asked == row.name.namespace());
    let rows = rows.iter().filter(is_there);
    rows.map(|row| format!("{}/{}", row.name.namespace(), row.name.service()))
        .collect()
}

/// Whether traffic to the address enters there, or is answered from it.
fn is_reached(row: &Row, pattern: AddressPattern, node: &BTreeSet<IpAddr>) -> bool {
    let is_port = |port| pattern.port.is_none_or(|asked| asked == port);
    let enters = |entrance: &Entrance| match entrance.ip {
        Some(ip) => ip == pattern.ip && is_port(entrance.port),
        None => node.contains(&pattern.ip) && is_port(entrance.port),
    };
    let mut endpoints = row.views().flat_map(|(_, view)| &view.endpoints);
    row.entrances().any(enters)
        || endpoints.any(|one| one.address.ip() == pattern.ip && is_port(one.address.port()))
}
