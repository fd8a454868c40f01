//! Renders the conditions and targets of rules in words.

use std::net::SocketAddr;

use crate::rules::{MarkBits, Match, Network, RecentAction, Rule, Target};

/// Renders the conditions of a rule; empty if it matches every packet.
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
            "{}in via {}",
            not(interface.negated),
            interface.value
        ));
    }
    if let Some(interface) = &rule.out_interface {
        parts.push(format!(
            "{}out via {}",
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
            .filter(|matched| !matched.negated)
            .and_then(|matched| matched.value.host()),
        port.is_some_and(|port| !port.negated && port.value.first == port.value.last),
    );
    if let (Some(ip), Some(port), true) = (host, port, is_plain) {
        parts.push(format!("to {}", SocketAddr::new(ip, port.value.first)));
        parts.extend(
            rule.matches
                .iter()
                .filter(|one| !is_port(one))
                .filter_map(match_condition),
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
    parts.extend(rule.matches.iter().filter_map(match_condition));
    parts.join(", ")
}

const fn is_port(one: &Match) -> bool {
    matches!(one, Match::Ports { .. })
}

fn match_condition(one: &Match) -> Option<String> {
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
        Match::Conntrack(states) | Match::State(states) => {
            format!("{}{}", not(states.negated), states.value)
        }
        Match::Mark(mark) => format!("{}marked {:#x}", not(mark.negated), mark.value.value),
        Match::Ports { destination, .. } => {
            let port = (*destination)?;
            format!("{}port {}", not(port.negated), port.value)
        }
        Match::MultiPort(ports) => ports.to_string(),
        Match::Recent(recent) if recent.action == RecentAction::Set => return None,
        Match::Recent(_) => "seen recently".to_owned(),
        Match::Random(_) => "at random".to_owned(),
        Match::Other(extension) if &*extension.name == "nfacct" => return None,
        Match::Other(_) => one.to_string(),
    })
}

const fn not(negated: bool) -> &'static str {
    if negated { "not " } else { "" }
}

/// Renders a network, a single address without its mask.
fn short(network: Network) -> String {
    network
        .host()
        .map_or_else(|| network.to_string(), |ip| ip.to_string())
}

/// Renders the target of a rule.
pub(super) fn effect(rule: &Rule) -> String {
    match &rule.target {
        None => "continue".to_owned(),
        Some(Target::Accept) => "ACCEPT".to_owned(),
        Some(Target::Drop) => "DROP".to_owned(),
        Some(Target::Reject(_)) => "REJECT".to_owned(),
        Some(Target::Return) => "RETURN".to_owned(),
        Some(Target::Jump(chain) | Target::Goto(chain)) => format!("-> {chain}"),
        Some(Target::Mark(MarkBits { value, mask })) => match (value, mask) {
            (bits, 0) => format!("toggles mark {bits:#x}"),
            (set, cleared) if set == cleared => format!("sets mark {set:#x}"),
            (0, bits) => format!("clears mark {bits:#x}"),
            (value, mask) => format!("sets mark {value:#x}/{mask:#x}"),
        },
        Some(Target::Dnat { .. }) => format!("-> {}", dnat_address(rule).unwrap_or_default()),
        Some(Target::Masquerade { .. }) => "MASQUERADE".to_owned(),
        Some(target @ Target::Other(_)) => target.to_string(),
    }
}

/// Returns the address that a DNAT rule sets as the destination.
pub(super) fn dnat_address(rule: &Rule) -> Option<String> {
    match &rule.target {
        Some(target @ Target::Dnat { .. }) => {
            let text = target.to_string();
            text.rsplit_once(' ').map(|(_, to)| to.to_owned())
        }
        _ => None,
    }
}
