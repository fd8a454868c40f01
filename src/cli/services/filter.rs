//! Which service ports are asked for.
//!
//! Apart because it is the same for every kind of output.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::row::Row;
use crate::catalog::{Entrance, PortName};
use crate::config::{AddressPattern, ServicesArgs};

/// Whether anything less than all is asked for.
pub(super) fn is_any(args: &ServicesArgs) -> bool {
    !args.names.is_empty() || args.namespace.is_some() || args.address.is_some()
}

/// The rows that are asked for.
pub(super) fn chosen(rows: Vec<Row>, args: &ServicesArgs, node: &BTreeSet<IpAddr>) -> Vec<Row> {
    let is_named = |name: &PortName| {
        args.names.is_empty() || args.names.iter().any(|pattern| pattern.fits(name))
    };
    let has_address = |row: &Row| {
        args.address
            .is_none_or(|pattern| is_reached(row, pattern, node))
    };
    let mut rows = rows;
    rows.retain(|row| is_in_namespace(row, args) && is_named(&row.name) && has_address(row));
    rows
}

/// Every Service's name with its namespace, for completion: what is typed of a name already is the
/// shell's business.
pub(super) fn names(rows: &[Row], args: &ServicesArgs) -> BTreeSet<String> {
    let rows = rows.iter().filter(|row| is_in_namespace(row, args));
    rows.map(|row| format!("{}/{}", row.name.namespace(), row.name.service()))
        .collect()
}

fn is_in_namespace(row: &Row, args: &ServicesArgs) -> bool {
    let namespace = args.namespace.as_deref();
    namespace.is_none_or(|namespace| namespace == row.name.namespace())
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
