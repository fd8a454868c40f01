//! Decides whether a rule matches a packet.
//!
//! There are four results: yes, no, for a share of the packets, and undecided.

use super::extension::{self, is_in_state, is_of_type};
use super::packet::{Direction, Interface, MatchResult, PacketState};
use crate::rules::grammar::{
    AddressTypes, Match, Negatable, PortRange, Recent, RecentAction, Rule, Share,
};

/// Decides whether the rule matches the packet.
pub(super) fn matches(rule: &Rule, packet: &PacketState<'_>) -> MatchResult {
    if rule.is_unparsed() {
        return MatchResult::Undecided;
    }
    let source = rule.source.is_none_or(|source| {
        let is_equal = source.value.contains(packet.source);
        source.matches_if(is_equal)
    });
    let destination = rule.destination.map_or(MatchResult::Yes, |destination| {
        let is_match = |ip| Some(destination.matches_if(destination.value.contains(ip)));
        packet.destination_is(is_match).into()
    });
    let protocol = rule.protocol.as_ref().is_none_or(|protocol| {
        let is_equal = protocol.value == packet.original.protocol.as_str();
        protocol.matches_if(is_equal)
    });
    let addressed = MatchResult::from(source && protocol)
        .and(destination)
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
        Interface::NotLoopback | Interface::Any => return MatchResult::Undecided,
    };
    condition.matches_if(is_equal).into()
}

fn condition(one: &Match, packet: &PacketState<'_>) -> MatchResult {
    match one {
        // Lists are decided with the rule that they belong to.
        Match::Comment(_) | Match::Recent(_) => MatchResult::Yes,
        Match::Mark(mark) => mark.matches_if(mark.value.matches(packet.mark)).into(),
        Match::MultiPort(ports) => ports.matches(packet.source_port, packet.port).into(),
        Match::Conntrack(states) | Match::State(states) => {
            let is_in = is_in_state(states.value, packet);
            is_in.map(|is_in| states.matches_if(is_in)).into()
        }
        Match::Ports {
            protocol,
            source,
            destination,
        } => MatchResult::from(*protocol == packet.original.protocol)
            .and(port_in(destination.as_ref(), packet.port))
            .and(port_in(source.as_ref(), packet.source_port)),
        Match::AddressType {
            source,
            destination,
        } => {
            let is_of = |types: &Negatable<AddressTypes>, ip| {
                let is_of = is_of_type(types.value, ip, packet.traced_node);
                is_of.map(|is_of| types.matches_if(is_of))
            };
            let source = source
                .as_ref()
                .map_or(MatchResult::Yes, |types| is_of(types, packet.source).into());
            source.and(destination.as_ref().map_or(MatchResult::Yes, |types| {
                packet.destination_is(|ip| is_of(types, ip)).into()
            }))
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
/// list is one of session affinity, and the packet is the first of its client. Lists of the node
/// are known for clients only, not for the receivers that reply to them.
fn recent(list: &Recent, rule: &Rule, packet: &PacketState<'_>) -> MatchResult {
    let is_in_list = match list.action {
        RecentAction::Set => Some(true),
        RecentAction::Check | RecentAction::Update => {
            let is_added = packet.added_to.binary_search(&list.name).is_ok();
            let is_of_client = packet.direction == Direction::Original;
            let listed = &packet.traced_node.recent_lists;
            let is_known = is_added || (is_of_client && listed.contains(&list.name));
            let is_affinity = is_of_client && rule.target_chain() == Some(&list.name);
            (is_known || is_affinity).then_some(is_known)
        }
    };
    is_in_list.into()
}

fn port_in(range: Option<&Negatable<PortRange>>, ports: PortRange) -> MatchResult {
    let Some(range) = range else {
        return MatchResult::Yes;
    };
    let is_in = range.value.contains_any(ports);
    is_in.map(|is_in| range.matches_if(is_in)).into()
}
