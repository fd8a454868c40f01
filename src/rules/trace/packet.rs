//! State of a packet on its path, and the results of matching it.

use std::net::IpAddr;

use super::hook::Hook;
use super::outcome::{Packet, RoutedPacket, TracedNode};
use crate::rules::grammar::{PortRange, Share};

/// Result of matching a rule or one of its conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchResult {
    Yes,
    No,
    /// For this share of the packets that reach the rule.
    Sometimes(Share),
    /// The result depends on an unsupported match or on unknown properties of the packet.
    Undecided,
}

impl MatchResult {
    /// Combines two conditions that must both match. `No` overrides `Undecided`.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Undecided, _) | (_, Self::Undecided) => Self::Undecided,
            (Self::Yes, result) | (result, Self::Yes) => result,
            (Self::Sometimes(left), Self::Sometimes(right)) => Self::Sometimes(left.of(right)),
        }
    }

    /// Converts a share of all or no packets to `Yes` or `No`.
    pub(super) fn sometimes(share: Share) -> Self {
        match share {
            Share::ALL => Self::Yes,
            Share::NONE => Self::No,
            share => Self::Sometimes(share),
        }
    }
}

impl From<bool> for MatchResult {
    fn from(is_match: bool) -> Self {
        if is_match { Self::Yes } else { Self::No }
    }
}

/// `None` is a comparison with something that is not known.
impl From<Option<bool>> for MatchResult {
    fn from(is_match: Option<bool>) -> Self {
        is_match.map_or(Self::Undecided, Self::from)
    }
}

/// Direction of a packet in its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    /// First packet of the connection, as the client sent it.
    Original,
    /// First packet of the receiver's reply.
    Reply,
}

/// State of a packet in connection tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tracking {
    /// The packet is in the raw table, before tracking.
    Pending,
    /// The packet belongs to a connection.
    Tracked,
    /// A rule exempted the packet: it is not translated.
    Untracked,
}

/// Ports that a client chooses from: the default of the sysctl `net.ipv4.ip_local_port_range`,
/// which other systems' defaults overlap.
pub(super) const CLIENT_PORTS: PortRange = PortRange {
    first: 32_768,
    last: 60_999,
};

/// Source ports that `MASQUERADE --random-fully` chooses from for a client port above 1023.
const MASQUERADED_PORTS: PortRange = PortRange {
    first: 1024,
    last: u16::MAX,
};

/// Address that a rule sees, or that it sets as the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PacketAddress {
    Known(IpAddr),
    /// Address of the node on one of its interfaces.
    Node,
    /// One of several.
    Unknown,
}

/// State of the packet at a rule. Source and destination are those that the rule sees.
#[derive(Debug, Clone)]
pub(super) struct PacketState<'a> {
    /// First packet of the connection, before any translation.
    pub(super) original: &'a Packet,
    pub(super) traced_node: &'a TracedNode,
    pub(super) direction: Direction,
    pub(super) tracking: Tracking,
    pub(super) source: IpAddr,
    /// Source port, or all that it may be.
    pub(super) source_port: PortRange,
    pub(super) destination: PacketAddress,
    /// Destination port, or all that it may be.
    pub(super) port: PortRange,
    /// Receiver of the connection after translations so far.
    pub(super) receiver: IpAddr,
    pub(super) receiver_port: u16,
    pub(super) is_translated: bool,
    /// Source address of the connection after translation; `None`: the client's own.
    pub(super) new_source: Option<PacketAddress>,
    pub(super) mark: u32,
    pub(super) connection_mark: u32,
    pub(super) incoming: Interface<'a>,
    pub(super) outgoing: Interface<'a>,
    /// Interface by which packets of this direction enter the node, unless a process sent them.
    pub(super) entrance: Interface<'a>,
    /// Outgoing interface of the last route.
    pub(super) route: Interface<'a>,
    /// `recent` lists to which rules of this trace added the source, sorted.
    pub(super) added_to: Vec<Box<str>>,
}

impl<'a> PacketState<'a> {
    /// Returns the first packet of a connection before its first hook.
    pub(super) fn new(packet: &'a Packet, traced_node: &'a TracedNode) -> Self {
        Self {
            original: packet,
            traced_node,
            direction: Direction::Original,
            tracking: Tracking::Pending,
            source: packet.source,
            source_port: CLIENT_PORTS,
            destination: PacketAddress::Known(packet.destination),
            port: PortRange::single(packet.port.get()),
            receiver: packet.destination,
            receiver_port: packet.port.get(),
            is_translated: false,
            new_source: None,
            mark: 0,
            connection_mark: 0,
            incoming: Interface::None,
            outgoing: Interface::None,
            entrance: packet
                .in_interface
                .as_deref()
                .map_or(Interface::NotLoopback, Interface::Named),
            route: Interface::NotLoopback,
            added_to: Vec::new(),
        }
    }

    /// Turns the packet into the first reply to it, before the first hook of that.
    pub(super) fn turn(&mut self) {
        self.direction = Direction::Reply;
        // Replies come in where the request went out.
        self.entrance = self.route;
        self.tracking = Tracking::Pending;
        self.source = self.receiver;
        self.source_port = PortRange::single(self.receiver_port);
        let client = (PacketAddress::Known(self.original.source), CLIENT_PORTS);
        let masqueraded = self.new_source.map(|source| (source, MASQUERADED_PORTS));
        (self.destination, self.port) = masqueraded.unwrap_or(client);
        self.mark = 0;
        self.added_to.clear();
    }

    /// Enters a hook: determines the interfaces that its rules see.
    pub(super) fn enter_hook(&mut self, hook: Hook) {
        self.incoming = match () {
            () if !hook.has_incoming() => Interface::None,
            () if self.is_from_node() => Interface::Named("lo"),
            () => self.entrance,
        };
        // The mark that routes a packet is that of this moment.
        if hook.follows_routing(self.is_from_node()) {
            self.route = self.routed();
        }
        self.outgoing = if hook.has_outgoing() {
            self.route
        } else {
            Interface::None
        };
    }

    /// Returns the outgoing interface for the present destination.
    fn routed(&self) -> Interface<'a> {
        let destination = match self.destination {
            PacketAddress::Unknown => return Interface::Any,
            PacketAddress::Node => return Interface::Named("lo"),
            PacketAddress::Known(ip) if self.traced_node.is_local(ip) => {
                return Interface::Named("lo");
            }
            PacketAddress::Known(ip) => ip,
        };
        let packet = RoutedPacket {
            source: self.source,
            destination,
            in_interface: match self.entrance {
                Interface::Named(name) if !self.is_from_node() => Some(name),
                _ => None,
            },
            mark: self.mark,
        };
        let host = self.traced_node.host.as_ref();
        let found = host.and_then(|host| host.out_interface(&packet));
        match (found, &self.original.in_interface, self.direction) {
            (Some(name), _, _) => Interface::Named(name),
            // Replies leave where the request came in.
            (None, Some(name), Direction::Reply) => Interface::Named(name),
            _ => Interface::NotLoopback,
        }
    }

    pub(super) fn translate(&mut self, address: IpAddr, port: u16) {
        (self.receiver, self.receiver_port) = (address, port);
        self.destination = PacketAddress::Known(address);
        self.port = PortRange::single(port);
        self.is_translated = true;
    }

    /// Translates the addresses of a reply back, as the hooks of `nat` do without their rules.
    pub(super) fn translate_back(&mut self, hook: Hook) {
        match hook {
            Hook::NatPrerouting | Hook::NatOutput => {
                self.destination = PacketAddress::Known(self.original.source);
                self.port = CLIENT_PORTS;
            }
            _ => {
                self.source = self.original.destination;
                self.source_port = PortRange::single(self.original.port.get());
            }
        }
    }

    /// Reports whether a process on the node sent the packet.
    pub(super) fn is_from_node(&self) -> bool {
        self.traced_node.is_local(match self.direction {
            Direction::Original => self.original.source,
            Direction::Reply => self.receiver,
        })
    }

    /// Reports whether a process on the node receives the packet.
    pub(super) fn is_to_node(&self) -> bool {
        self.traced_node.is_local(match self.direction {
            Direction::Original => self.receiver,
            Direction::Reply => self.original.source,
        })
    }

    /// Reports whether the packet still has the socket of the process that sent it. Packets lose it
    /// when they leave the node, be it through `lo`.
    pub(super) fn has_socket(&self) -> bool {
        self.is_from_node() && self.incoming == Interface::None
    }

    /// Reports whether the node sent the packet to itself, and it came in again.
    pub(super) fn is_looped_back(&self) -> bool {
        self.incoming == Interface::Named("lo")
    }

    /// Compares the destination address; `None` if it is not known well enough.
    pub(super) fn destination_is(&self, is_equal: impl Fn(IpAddr) -> Option<bool>) -> Option<bool> {
        let is_own =
            |ip: &&IpAddr| ip.is_ipv4() == self.original.source.is_ipv4() && !ip.is_loopback();
        match self.destination {
            PacketAddress::Known(ip) => is_equal(ip),
            PacketAddress::Node => {
                let mut own = self.traced_node.addresses.iter().filter(is_own);
                let first = is_equal(*own.next()?);
                own.all(|ip| is_equal(*ip) == first).then_some(first)?
            }
            PacketAddress::Unknown => None,
        }
    }
}

/// Interface of a packet, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Interface<'a> {
    /// Packets at the hook have no such interface.
    None,
    Named(&'a str),
    /// Unknown, but not `lo`.
    NotLoopback,
    /// Unknown.
    Any,
}
