//! Decides matches that are kept as text.
//!
//! The packet is the first of a connection, without IP options and extension headers. All that
//! depends on counters, clocks, sets, payloads, routes or processes is undecided.

use super::outcome::BridgePort;
use super::packet::{MatchResult, PacketState};
use super::{address, connection};
use crate::rules::grammar::{AddressTypes, Extension, ExtensionOption, MarkBits, PortRange, Share};

/// Decides whether a match that is kept as text matches the packet.
pub(super) fn matches(extension: &Extension, packet: &PacketState<'_>) -> MatchResult {
    let Some(options) = extension.read_options() else {
        return MatchResult::Undecided;
    };
    let all = |known: &dyn Fn(&ExtensionOption) -> Option<bool>| all(&options, known);
    match &*extension.name {
        // Counts packets.
        "nfacct" => MatchResult::Yes,
        // Protocols that the packet does not have, and headers.
        "ah" | "dccp" | "dst" | "esp" | "frag" | "hbh" | "icmp" | "icmp6" | "icmpv6"
        | "ipv6-icmp" | "l2tp" | "mh" | "rt" | "udplite" => MatchResult::No,
        "addrtype" => address_types(&options, packet),
        "cgroup" if !packet.has_socket() => MatchResult::No,
        "connmark" => all(&|option| {
            let bits = MarkBits::read(option.only_value()?)?;
            Some(bits.matches(packet.connection_mark))
        }),
        "conntrack" => all(&|option| connection::matches(option, packet)),
        // Only connections that another one announced have a helper's name.
        "helper" => all(&|_| Some(false)),
        "iprange" => all(&|option| {
            let ip = match &*option.name {
                "--src-range" => packet.original.source,
                "--dst-range" => packet.destination,
                _ => return None,
            };
            address::is_in_range(option.only_value()?, ip)
        }),
        // Packets through `lo` have no link-layer address, and do not match even with `!`.
        "mac" if packet.is_looped_back() => MatchResult::No,
        "owner" if !packet.has_socket() => all(&|_| Some(false)),
        "owner" => all(&|option| (&*option.name == "--socket-exists").then_some(true)),
        "physdev" => all(&|_| match packet.original.bridge_port {
            BridgePort::Unknown if !packet.is_from_node() => None,
            BridgePort::Unknown | BridgePort::None => Some(false),
        }),
        "pkttype" => all(&|option| {
            let is_unicast = address::is_unicast(packet.original.destination);
            is_unicast.then_some(option.only_value()? == "unicast")
        }),
        "recent" if options.iter().any(|option| &*option.name == "--set") => {
            let is_inverted = options.iter().any(|option| option.negated);
            (!is_inverted).into()
        }
        "rpfilter" if packet.is_looped_back() => {
            let is_inverted = options.iter().any(|option| &*option.name == "--invert");
            (!is_inverted).into()
        }
        "statistic" => every_nth(&options),
        name @ ("tcp" | "udp" | "sctp") => {
            let is_protocol = name == packet.original.protocol.as_str();
            MatchResult::from(is_protocol).and(all(&|option| transport(option, packet)))
        }
        // `-f`: fragments are put together before they reach a rule.
        "" => all(&|option| (&*option.name == "-f").then_some(false)),
        _ => MatchResult::Undecided,
    }
}

/// Combines options that must all match. `known` decides one without its negation.
fn all(
    options: &[ExtensionOption],
    known: &dyn Fn(&ExtensionOption) -> Option<bool>,
) -> MatchResult {
    let results = options.iter().map(|option| {
        let is_match = known(option);
        MatchResult::from(is_match.map(|is_match| is_match != option.negated))
    });
    results.fold(MatchResult::Yes, MatchResult::and)
}

/// Decides `addrtype` with a limit to the addresses of one interface.
fn address_types(options: &[ExtensionOption], packet: &PacketState<'_>) -> MatchResult {
    all(options, &|option| {
        let ip = match &*option.name {
            "--src-type" => packet.original.source,
            "--dst-type" => packet.destination,
            "--limit-iface-in" | "--limit-iface-out" => return Some(true),
            _ => return None,
        };
        // A local address may be one of another interface.
        let is_unlimited = !packet.locality.is_local(ip);
        let types = AddressTypes::read(option.only_value()?)?;
        is_unlimited.then(|| address::is_of_type(types, ip, packet.locality))?
    })
}

/// Decides `statistic --mode nth`: in the long run, one of `every` packets matches.
fn every_nth(options: &[ExtensionOption]) -> MatchResult {
    let every = options.iter().find(|option| &*option.name == "--every");
    let count = every.and_then(|option| option.only_value()?.parse().ok());
    match (every, count) {
        (Some(every), Some(count)) if count > 0 => {
            let share = Share::new(1, count);
            MatchResult::sometimes(if every.negated {
                share.complement()
            } else {
                share
            })
        }
        _ => MatchResult::Undecided,
    }
}

/// Reports whether an option on ports or TCP flags matches: a connection begins with SYN alone.
fn transport(option: &ExtensionOption, packet: &PacketState<'_>) -> Option<bool> {
    match &*option.name {
        "--dport" | "--destination-port" => {
            Some(PortRange::read(option.only_value()?)?.contains(packet.port))
        }
        "--syn" => Some(true),
        "--tcp-flags" => match option.values.as_slice() {
            [mask, set] => {
                let has_syn =
                    |list: &str| list.split(',').any(|flag| ["SYN", "ALL"].contains(&flag));
                let is_only_syn = &**set == "SYN";
                let is_nothing = &**set == "NONE";
                Some(if has_syn(mask) {
                    is_only_syn
                } else {
                    is_nothing
                })
            }
            _ => None,
        },
        _ => None,
    }
}
