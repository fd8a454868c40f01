//! Decides whether a rule matches a packet.
//!
//! There are four results: yes, no, for a share of the packets, and undecided.

use std::net::IpAddr;

use super::outcome::{Locality, Packet};
use crate::rules::grammar::{
    AddressTypes, ConntrackStates, Match, Negatable, PortRange, RecentAction, Rule, Share,
};

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
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Undecided, _) | (_, Self::Undecided) => Self::Undecided,
            (Self::Yes, result) | (result, Self::Yes) => result,
            (Self::Sometimes(left), Self::Sometimes(right)) => Self::Sometimes(left.of(right)),
        }
    }
}

impl From<bool> for MatchResult {
    fn from(is_match: bool) -> Self {
        if is_match { Self::Yes } else { Self::No }
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
    pub(super) mark: u32,
    /// Incoming interface, as visible at the hook.
    pub(super) incoming: Interface<'a>,
    /// Outgoing interface; only `lo` is known without the routing table.
    pub(super) outgoing: Interface<'a>,
    /// `recent` lists to which rules of this trace added the source, sorted.
    pub(super) added_to: Vec<Box<str>>,
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

/// Decides whether the rule matches the packet.
pub(super) fn matches(rule: &Rule, packet: &PacketState<'_>) -> MatchResult {
    let source = rule.source.is_none_or(|source| {
        let is_equal = source.value.contains(packet.original.source);
        source.decide(is_equal)
    });
    let destination = rule.destination.is_none_or(|destination| {
        let is_equal = destination.value.contains(packet.destination);
        destination.decide(is_equal)
    });
    let protocol = rule.protocol.as_ref().is_none_or(|protocol| {
        let is_equal = protocol.value == packet.original.protocol.as_str();
        protocol.decide(is_equal)
    });
    let addressed = MatchResult::from(source && destination && protocol)
        .and(interface(rule.in_interface.as_ref(), packet.incoming))
        .and(interface(rule.out_interface.as_ref(), packet.outgoing));
    rule.matches
        .iter()
        .fold(addressed, |result, one| result.and(extension(one, packet)))
}

fn interface(condition: Option<&Negatable<Box<str>>>, known: Interface<'_>) -> MatchResult {
    let Some(condition) = condition else {
        return MatchResult::Yes;
    };
    let is_equal = match known {
        Interface::None => false,
        Interface::Named(name) => match condition.value.strip_suffix('+') {
            Some(prefix) => name.starts_with(prefix),
            None => *condition.value == *name,
        },
        Interface::NotLoopback if *condition.value == *"lo" => false,
        Interface::NotLoopback => return MatchResult::Undecided,
    };
    condition.decide(is_equal).into()
}

fn extension(one: &Match, packet: &PacketState<'_>) -> MatchResult {
    match one {
        Match::Comment(_) => MatchResult::Yes,
        Match::Mark(mark) => mark.decide(mark.value.matches(packet.mark)).into(),
        Match::MultiPort(ports) => match ports.matches(packet.port) {
            Some(is_match) => is_match.into(),
            None => MatchResult::Undecided,
        },
        Match::Conntrack(states) => states.decide(is_in_state(states.value, packet)).into(),
        Match::Ports {
            protocol,
            source,
            destination,
        } => MatchResult::from(*protocol == packet.original.protocol)
            .and(destination_port(destination.as_ref(), packet.port))
            .and(match source {
                // The source port is not known.
                Some(_) => MatchResult::Undecided,
                None => MatchResult::Yes,
            }),
        Match::AddressType {
            source,
            destination,
        } => {
            let source = is_of_type(source.as_ref(), packet.original.source, packet);
            source.and(is_of_type(destination.as_ref(), packet.destination, packet))
        }
        Match::Recent(recent) => match recent.action {
            RecentAction::Set => MatchResult::Yes,
            RecentAction::Check | RecentAction::Update => {
                let is_added = packet.added_to.binary_search(&recent.name).is_ok();
                (is_added || packet.locality.recent_lists.contains(&recent.name)).into()
            }
        },
        Match::Random(chance) => {
            let share = Share::from_probability(chance.value);
            sometimes(if chance.negated {
                share.complement()
            } else {
                share
            })
        }
        // Counts packets, and always matches.
        Match::Other(extension) if &*extension.name == "nfacct" => MatchResult::Yes,
        Match::Other(_) => MatchResult::Undecided,
    }
}

/// Converts a share of all or no packets to `Yes` or `No`.
fn sometimes(share: Share) -> MatchResult {
    match share {
        Share::ALL => MatchResult::Yes,
        Share::NONE => MatchResult::No,
        share => MatchResult::Sometimes(share),
    }
}

/// Reports whether `--ctstate` matches. The packet is the first of its connection, so its state is
/// NEW; in addition, DNAT matches once its destination is translated.
fn is_in_state(states: ConntrackStates, packet: &PacketState<'_>) -> bool {
    states.contains("NEW") || (packet.is_translated && states.contains("DNAT"))
}

fn destination_port(range: Option<&Negatable<PortRange>>, port: u16) -> MatchResult {
    range
        .is_none_or(|range| range.decide(range.value.contains(port)))
        .into()
}

fn is_of_type(
    types: Option<&Negatable<AddressTypes>>,
    ip: IpAddr,
    packet: &PacketState<'_>,
) -> MatchResult {
    match types {
        None => MatchResult::Yes,
        Some(types) if types.value.is_only_local() => {
            types.decide(packet.locality.is_local(ip)).into()
        }
        Some(_) => MatchResult::Undecided,
    }
}
