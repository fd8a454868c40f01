//! Whether a rule matches a packet on its way.
//!
//! Apart from the walk because there are four answers, not two: a rule may match some of the
//! packets, or ask what nobody here can know.

use std::net::IpAddr;

use super::condition::{Negatable, PortRange};
use super::matches::{Match, RecentAction};
use super::names::{AddressTypes, States};
use super::packet::{Locality, Packet};
use super::rule::Rule;
use super::share::Share;

/// Whether a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    /// For that share of the packets that come by.
    Sometimes(Share),
    /// It asks something that is not modelled.
    Unknown,
}

impl Answer {
    /// Both must match. One sure "no" settles it, whatever the other asks.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Yes, answer) | (answer, Self::Yes) => answer,
            (Self::Sometimes(left), Self::Sometimes(right)) => Self::Sometimes(left.of(right)),
        }
    }
}

impl From<bool> for Answer {
    fn from(answer: bool) -> Self {
        if answer { Self::Yes } else { Self::No }
    }
}

/// The packet where a rule meets it.
#[derive(Debug, Clone)]
pub(super) struct Seen<'a> {
    pub(super) packet: &'a Packet,
    pub(super) locality: &'a Locality,
    /// The destination as it is now.
    pub(super) destination: IpAddr,
    /// The port as it is now.
    pub(super) port: u16,
    pub(super) is_translated: bool,
    pub(super) mark: u32,
    /// The interface that the packet came in through, as the hook shows it.
    pub(super) incoming: Interface<'a>,
    /// The one that it leaves through: the routing table's business, but for `lo`.
    pub(super) outgoing: Interface<'a>,
    /// The `recent` lists that rules wrote its source into on the way, sorted.
    pub(super) written: Vec<Box<str>>,
}

/// What is known of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interface<'a> {
    /// The hook is for packets that have none.
    None,
    Named(&'a str),
    /// Not `lo`, but which one was not said.
    Unnamed,
}

/// Whether the rule matches.
pub(super) fn matches(rule: &Rule, seen: &Seen<'_>) -> Answer {
    let source = rule.source.is_none_or(|asked| {
        let answer = asked.value.contains(seen.packet.source);
        asked.decide(answer)
    });
    let destination = rule.destination.is_none_or(|asked| {
        let answer = asked.value.contains(seen.destination);
        asked.decide(answer)
    });
    let protocol = rule.protocol.as_ref().is_none_or(|asked| {
        let answer = asked.value == seen.packet.protocol.as_str();
        asked.decide(answer)
    });
    let addressed = Answer::from(source && destination && protocol)
        .and(interface(rule.in_interface.as_ref(), seen.incoming))
        .and(interface(rule.out_interface.as_ref(), seen.outgoing));
    rule.matches
        .iter()
        .fold(addressed, |answer, one| answer.and(extension(one, seen)))
}

fn interface(asked: Option<&Negatable<Box<str>>>, known: Interface<'_>) -> Answer {
    let Some(asked) = asked else {
        return Answer::Yes;
    };
    let answer = match known {
        Interface::None => false,
        Interface::Named(name) => match asked.value.strip_suffix('+') {
            Some(beginning) => name.starts_with(beginning),
            None => *asked.value == *name,
        },
        Interface::Unnamed if *asked.value == *"lo" => false,
        Interface::Unnamed => return Answer::Unknown,
    };
    asked.decide(answer).into()
}

fn extension(one: &Match, seen: &Seen<'_>) -> Answer {
    match one {
        Match::Comment(_) => Answer::Yes,
        Match::Mark(asked) => asked.decide(asked.value.matches(seen.mark)).into(),
        Match::MultiPort(asked) => match asked.matches(seen.port) {
            Some(answer) => answer.into(),
            None => Answer::Unknown,
        },
        Match::Conntrack(asked) => asked.decide(is_in_state(asked.value, seen)).into(),
        Match::Ports {
            protocol,
            source,
            destination,
        } => Answer::from(*protocol == seen.packet.protocol)
            .and(destination_port(destination.as_ref(), seen.port))
            .and(match source {
                // The source port is any; a rule about it decides nothing here.
                Some(_) => Answer::Unknown,
                None => Answer::Yes,
            }),
        Match::AddressType {
            source,
            destination,
        } => is_of_type(source.as_ref(), seen.packet.source, seen).and(is_of_type(
            destination.as_ref(),
            seen.destination,
            seen,
        )),
        Match::Recent(recent) => match recent.action {
            RecentAction::Set => Answer::Yes,
            RecentAction::Check | RecentAction::Update => {
                let is_written = seen.written.binary_search(&recent.name).is_ok();
                (is_written || seen.locality.remembered.contains(&recent.name)).into()
            }
        },
        Match::Random(asked) => {
            let share = Share::of_chance(asked.value);
            sometimes(if asked.negated {
                share.complement()
            } else {
                share
            })
        }
        // Counts, and matches always.
        Match::Other(extension) if &*extension.name == "nfacct" => Answer::Yes,
        Match::Other(_) => Answer::Unknown,
    }
}

/// All and none are no choice.
fn sometimes(share: Share) -> Answer {
    match share {
        Share::ALL => Answer::Yes,
        Share::NONE => Answer::No,
        share => Answer::Sometimes(share),
    }
}

/// The packet is the first of its connection, so its state is NEW; beside the state, conntrack
/// knows that the destination was translated.
fn is_in_state(states: States, seen: &Seen<'_>) -> bool {
    states.contains("NEW") || (seen.is_translated && states.contains("DNAT"))
}

fn destination_port(asked: Option<&Negatable<PortRange>>, port: u16) -> Answer {
    asked
        .is_none_or(|asked| asked.decide(asked.value.contains(port)))
        .into()
}

fn is_of_type(asked: Option<&Negatable<AddressTypes>>, ip: IpAddr, seen: &Seen<'_>) -> Answer {
    match asked {
        None => Answer::Yes,
        Some(asked) if asked.value.is_only_local() => {
            asked.decide(seen.locality.is_local(ip)).into()
        }
        Some(_) => Answer::Unknown,
    }
}
