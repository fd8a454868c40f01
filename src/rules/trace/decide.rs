//! Decides whether a rule matches a packet.
//!
//! There are four results: yes, no, for a share of the packets, and undecided.

use super::packet::{Interface, MatchResult, PacketState};
use super::{address, connection, extension};
use crate::rules::grammar::{Match, Negatable, PortRange, Recent, RecentAction, Rule, Share};

/// Decides whether the rule matches the packet.
pub(super) fn matches(rule: &Rule, packet: &PacketState<'_>) -> MatchResult {
    if rule.is_unparsed() {
        return MatchResult::Undecided;
    }
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
    let results = rule.matches.iter().map(|one| match one {
        Match::Recent(list) => recent(list, rule, packet),
        other => condition(other, packet),
    });
    results.fold(addressed, MatchResult::and)
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

fn condition(one: &Match, packet: &PacketState<'_>) -> MatchResult {
    match one {
        // Lists are decided with the rule that they belong to.
        Match::Comment(_) | Match::Recent(_) => MatchResult::Yes,
        Match::Mark(mark) => mark.decide(mark.value.matches(packet.mark)).into(),
        Match::MultiPort(ports) => ports.matches(packet.port).into(),
        Match::Conntrack(states) | Match::State(states) => {
            let is_in = connection::is_in_state(states.value, packet);
            is_in.map(|is_in| states.decide(is_in)).into()
        }
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
            let pairs = [
                (source, packet.original.source),
                (destination, packet.destination),
            ];
            let results = pairs.into_iter().map(|(types, ip)| match types {
                None => MatchResult::Yes,
                Some(types) => {
                    let is_of = address::is_of_type(types.value, ip, packet.locality);
                    is_of.map(|is_of| types.decide(is_of)).into()
                }
            });
            results.fold(MatchResult::Yes, MatchResult::and)
        }
        Match::Random(chance) => {
            let share = Share::from_probability(chance.value);
            MatchResult::sometimes(if chance.negated {
                share.complement()
            } else {
                share
            })
        }
        Match::Other(other) => extension::matches(other, packet),
    }
}

/// Decides whether the source is in a list. A rule that jumps to a chain of the same name as the
/// list is one of session affinity, and the packet is the first of its client.
fn recent(list: &Recent, rule: &Rule, packet: &PacketState<'_>) -> MatchResult {
    let is_in_list = match list.action {
        RecentAction::Set => Some(true),
        RecentAction::Check | RecentAction::Update => {
            let is_added = packet.added_to.binary_search(&list.name).is_ok();
            let is_known = is_added || packet.locality.recent_lists.contains(&list.name);
            let is_affinity = rule.target_chain() == Some(&list.name);
            (is_known || is_affinity).then_some(is_known)
        }
    };
    is_in_list.into()
}

fn destination_port(range: Option<&Negatable<PortRange>>, port: u16) -> MatchResult {
    range
        .is_none_or(|range| range.decide(range.value.contains(port)))
        .into()
}
