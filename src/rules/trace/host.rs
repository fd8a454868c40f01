//! Routes and IP sets of the node, which rules match and no dump shows.
//!
//! The tracer asks for them by a trait, because each answer depends on the packet: the kernel
//! selects a route by source, incoming interface and mark as well.

use std::fmt;
use std::net::IpAddr;

use crate::net::Protocol;

/// Routes and IP sets of a node.
pub trait HostLookup: fmt::Debug + Send + Sync {
    /// Returns the interface by which a packet leaves the node; `None` if that is not known.
    fn out_interface(&self, packet: &RoutedPacket<'_>) -> Option<&str>;

    /// Reports whether an IP set has the element that the packet is; `None` if that is not known.
    fn is_in_set(&self, set: &str, packet: &SetElement<'_>) -> Option<bool>;
}

/// Packet at the time when the kernel routes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutedPacket<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, after translation.
    pub destination: IpAddr,
    /// Incoming interface; `None` for packets of the node itself, or if it is not known.
    pub in_interface: Option<&'a str>,
    /// Mark of the packet.
    pub mark: u32,
}

/// Properties of a packet that an element of an IP set consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetElement<'a> {
    /// Side of the packet for each part of the element, such as address and port.
    pub sides: &'a [Side],
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Source port, if it is known.
    pub source_port: Option<u16>,
    /// Destination port, if it is known.
    pub port: Option<u16>,
}

/// Side of a packet, as rules name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `src`: the sender.
    Source,
    /// `dst`: the receiver.
    Destination,
}
