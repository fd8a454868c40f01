//! From the options of one `-m` to a [`Match`].
//!
//! Apart from [`spec`](super::spec) because each match has its own words. Every reader here
//! answers `None` on anything that it does not know, and the match is then carried as it stands.

use std::cmp::Ordering;

use crate::net::Protocol;

use super::condition::{Bits, Negatable, PortRange};
use super::matches::{Extension, Match, Recent, RecentAction};
use super::multiport::MultiPort;
use super::names::{AddressTypes, States};
use super::probability::Probability;
use super::spec::{Flag, Group};

/// Reads one match. Never fails: what is not understood is kept as words.
pub(super) fn read(group: &Group<'_>) -> Match {
    understood(group).unwrap_or_else(|| {
        Match::Other(Extension {
            name: group.name.into(),
            options: group.options(),
        })
    })
}

/// The order of matches in a rule.
pub(super) fn by_name(left: &Match, right: &Match) -> Ordering {
    left.name().cmp(right.name())
}

fn understood(group: &Group<'_>) -> Option<Match> {
    let flags = group.flags.as_slice();
    match group.name {
        "comment" => comment(flags),
        "tcp" | "udp" | "sctp" => ports(group),
        "mark" => mark(flags),
        "multiport" => match flags {
            [flag] => MultiPort::read(*flag).map(Match::MultiPort),
            _ => None,
        },
        "conntrack" => conntrack(flags),
        "addrtype" => address_type(flags),
        "recent" => recent(flags),
        "statistic" => random(flags),
        _ => None,
    }
}

fn comment(flags: &[Flag<'_>]) -> Option<Match> {
    match flags {
        [flag] if flag.name == "--comment" && !flag.negated => {
            Some(Match::Comment(flag.only_value()?.into()))
        }
        _ => None,
    }
}

fn ports(group: &Group<'_>) -> Option<Match> {
    let mut source = None;
    let mut destination = None;
    for flag in &group.flags {
        let range = PortRange::read(flag.only_value()?)?.normal(flag.negated);
        match flag.name {
            "--sport" | "--source-port" => source = range,
            "--dport" | "--destination-port" => destination = range,
            _ => return None,
        }
    }
    Some(Match::Ports {
        protocol: Protocol::from_iptables(group.name)?,
        source,
        destination,
    })
}

fn mark(flags: &[Flag<'_>]) -> Option<Match> {
    match flags {
        [flag] if flag.name == "--mark" => Some(Match::Mark(Negatable {
            negated: flag.negated,
            value: Bits::read(flag.only_value()?)?,
        })),
        _ => None,
    }
}

fn conntrack(flags: &[Flag<'_>]) -> Option<Match> {
    match flags {
        [flag] if flag.name == "--ctstate" => Some(Match::Conntrack(Negatable {
            negated: flag.negated,
            value: States::read(flag.only_value()?)?,
        })),
        _ => None,
    }
}

fn address_type(flags: &[Flag<'_>]) -> Option<Match> {
    let mut source = None;
    let mut destination = None;
    for flag in flags {
        let types = Some(Negatable {
            negated: flag.negated,
            value: AddressTypes::read(flag.only_value()?)?,
        });
        match flag.name {
            "--src-type" => source = types,
            "--dst-type" => destination = types,
            _ => return None,
        }
    }
    Some(Match::AddressType {
        source,
        destination,
    })
}

fn recent(flags: &[Flag<'_>]) -> Option<Match> {
    let mut name = "DEFAULT";
    let mut action = None;
    let mut seconds = None;
    let mut reap = false;
    for flag in flags {
        if flag.negated {
            return None;
        }
        match (flag.name, flag.only_value()) {
            ("--set", None) => action = Some(RecentAction::Set),
            ("--rcheck", None) => action = Some(RecentAction::Check),
            ("--update", None) => action = Some(RecentAction::Update),
            ("--seconds", Some(value)) => seconds = Some(value.parse().ok()?),
            ("--name", Some(value)) => name = value,
            ("--reap", None) => reap = true,
            // Both are what the tool adds by itself when it prints the rule.
            ("--rsource", None) | ("--mask", Some(WHOLE_V4 | WHOLE_V6)) => {}
            _ => return None,
        }
    }
    Some(Match::Recent(Recent {
        name: name.into(),
        action: action?,
        seconds,
        reap,
    }))
}

const WHOLE_V4: &str = "255.255.255.255";
const WHOLE_V6: &str = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";

fn random(flags: &[Flag<'_>]) -> Option<Match> {
    match flags {
        [mode, chance] if mode.name == "--mode" && chance.name == "--probability" => {
            let is_random = mode.only_value() == Some("random") && !mode.negated;
            let value = Probability::read(chance.only_value()?)?;
            let negated = chance.negated;
            is_random.then_some(Match::Random(Negatable { negated, value }))
        }
        _ => None,
    }
}
