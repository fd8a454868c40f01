//! The packet that is traced and what the node knows of addresses.
//!
//! Apart because these are the questions; [`trace`](super::trace) has the answers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::net::{Port, Protocol};

/// The first packet of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Who sent it. A packet from a local address starts on the node.
    pub source: IpAddr,
    /// Where it is meant to go before any translation.
    pub destination: IpAddr,
    /// One that has ports.
    pub protocol: Protocol,
    /// The destination port.
    pub port: Port,
    /// Where it came in; `None` if that is not known, and then only rules about `lo` are decided.
    pub in_interface: Option<Box<str>>,
}

/// What is local to the node, and what it remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Locality {
    /// The addresses of the node's interfaces; loopback needs no mention.
    pub addresses: BTreeSet<IpAddr>,
    /// The `recent` lists in which the source of the packet is, young enough to count.
    pub remembered: BTreeSet<Box<str>>,
}

impl Locality {
    /// Whether the routing table would call the address `LOCAL`.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.addresses.contains(&ip)
    }
}
