//! State of a packet on its path, and the results of matching it.

use std::net::IpAddr;

use super::outcome::{Locality, Packet};
use crate::rules::grammar::Share;

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

/// State of the packet at a rule.
#[derive(Debug, Clone)]
pub(super) struct PacketState<'a> {
    pub(super) original: &'a Packet,
    pub(super) locality: &'a Locality,
    /// Destination after translations so far.
    pub(super) destination: IpAddr,
    /// Destination port after translations so far.
    pub(super) port: u16,
    pub(super) is_translated: bool,
    pub(super) is_masqueraded: bool,
    pub(super) mark: u32,
    /// Mark of the connection.
    pub(super) connection_mark: u32,
    /// Incoming interface, as visible at the hook.
    pub(super) incoming: Interface<'a>,
    /// Outgoing interface; only `lo` is known without the routing table.
    pub(super) outgoing: Interface<'a>,
    /// `recent` lists to which rules of this trace added the source, sorted.
    pub(super) added_to: Vec<Box<str>>,
}

impl PacketState<'_> {
    /// Reports whether a process on the node sent the packet.
    pub(super) fn is_from_node(&self) -> bool {
        self.locality.is_local(self.original.source)
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
}

/// Interface of a packet, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interface<'a> {
    /// Packets at the hook have no such interface.
    None,
    Named(&'a str),
    /// Unknown, but not `lo`.
    NotLoopback,
}
