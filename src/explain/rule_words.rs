//! Rules in words: what they ask for and what they do.
//!
//! Apart from [`words`](super::words) because these know rules and no clients or Services.

use std::net::SocketAddr;

use crate::rules::{MarkBits, Match, Network, RecentAction, Rule, Target};

/// What a rule asks for, in words; empty if it takes every packet.
pub(super) fn condition(rule: &Rule) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(source) = rule.source {
        parts.push(format!(
            "{}from {}",
            not(source.negated),
            short(source.value)
        ));
    }
    if let Some(interface) = &rule.in_interface {
        parts.push(format!(
            "{}in by {}",
            not(interface.negated),
            interface.value
        ));
    }
    if let Some(interface) = &rule.out_interface {
        parts.push(format!(
            "{}out by {}",
            not(interface.negated),
            interface.value
        ));
    }
    let port = rule.matches.iter().find_map(|one| match one {
        Match::Ports { destination, .. } => destination.as_ref(),
        _ => None,
    });
    let (host, is_plain) = (
        rule.destination
            .filter(|asked| !asked.negated)
            .and_then(|asked| asked.value.host()),
        port.is_some_and(|port| !port.negated && port.value.first == port.value.last),
    );
    if let (Some(ip), Some(port), true) = (host, port, is_plain) {
        parts.push(format!("to {}", SocketAddr::new(ip, port.value.first)));
        parts.extend(
            rule.matches
                .iter()
                .filter(|one| !is_port(one))
                .filter_map(of_match),
        );
        return parts.join(", ");
    }
    if let Some(destination) = rule.destination {
        parts.push(format!(
            "{}to {}",
            not(destination.negated),
            short(destination.value)
        ));
    }
    parts.extend(rule.matches.iter().filter_map(of_match));
    parts.join(", ")
}

const fn is_port(one: &Match) -> bool {
    matches!(one, Match::Ports { .. })
}

fn of_match(one: &Match) -> Option<String> {
    Some(match one {
        Match::Comment(_) => return None,
        Match::AddressType {
            source,
            destination,
        } => {
            let word = |word: &str, negated, types: String| {
                let of = types.replace("LOCAL", "this node");
                format!("{}{word} {of}", not(negated))
            };
            let source = source.map(|one| word("from", one.negated, one.value.to_string()));
            let to = destination.map(|one| word("to", one.negated, one.value.to_string()));
            let both: Vec<_> = source.into_iter().chain(to).collect();
            both.join(", ")
        }
        Match::Conntrack(states) => format!("{}{}", not(states.negated), states.value),
        Match::Mark(mark) => format!("{}marked {:#x}", not(mark.negated), mark.value.value),
        Match::Ports { destination, .. } => {
            let port = (*destination)?;
            format!("{}port {}", not(port.negated), port.value)
        }
        Match::MultiPort(ports) => ports.to_string(),
        Match::Recent(recent) if recent.action == RecentAction::Set => return None,
        Match::Recent(_) => "remembered".to_owned(),
        Match::Random(_) => "by chance".to_owned(),
        Match::Other(extension) if &*extension.name == "nfacct" => return None,
        Match::Other(_) => one.to_string(),
    })
}

const fn not(negated: bool) -> &'static str {
    if negated { "not " } else { "" }
}

/// A single address without its mask.
fn short(network: Network) -> String {
    network
        .host()
        .map_or_else(|| network.to_string(), |ip| ip.to_string())
}

/// What a rule does, in words.
pub(super) fn effect(rule: &Rule) -> String {
    match &rule.target {
        None => "goes on".to_owned(),
        Some(Target::Accept) => "let through".to_owned(),
        Some(Target::Drop) => "DROP".to_owned(),
        Some(Target::Reject(_)) => "REJECT".to_owned(),
        Some(Target::Return) => "back".to_owned(),
        Some(Target::Jump(chain) | Target::Goto(chain)) => format!("-> {chain}"),
        Some(Target::Mark(MarkBits { value, mask })) => match (value, mask) {
            (bits, 0) => format!("flips mark {bits:#x}"),
            (set, cleared) if set == cleared => format!("sets mark {set:#x}"),
            (0, bits) => format!("clears mark {bits:#x}"),
            (value, mask) => format!("sets mark {value:#x}/{mask:#x}"),
        },
        Some(Target::Dnat { .. }) => format!("-> {}", translated(rule).unwrap_or_default()),
        Some(Target::Masquerade { .. }) => "source becomes the node's".to_owned(),
        Some(target @ Target::Other(_)) => target.to_string(),
    }
}

/// Where a rule sends packets instead of where they were meant to go.
pub(super) fn translated(rule: &Rule) -> Option<String> {
    match &rule.target {
        Some(target @ Target::Dnat { .. }) => {
            let text = target.to_string();
            text.rsplit_once(' ').map(|(_, to)| to.to_owned())
        }
        _ => None,
    }
}
