//! Decides whether a rule matches a packet, and the effect of targets that are kept as text.
//!
//! There are four results of a match: yes, no, for a share of the packets, and undecided. The
//! packet is the first of its direction, without IP options and extension headers. All that depends
//! on counters, clocks, payloads or processes is undecided, and on routes and sets unless the node
//! is there to ask. `addrtype` looks up the routing table: the node's own addresses and special
//! networks decide most rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::hook::Hook;
use super::outcome::{BridgePort, SetElement, Side, TracedNode};
use super::packet::{
    CLIENT_PORTS, Direction, Interface, MatchResult, PacketAddress, PacketState, Tracking,
};
use crate::net::Protocol;
use crate::rules::grammar::{
    AddressTypes, ConntrackStates, Extension, ExtensionOption, MarkBits, Match, Negatable, Network,
    PortRange, Recent, RecentAction, Rule, Share, number,
};

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
        Match::Other(other) => extension(other, packet),
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

/// Decides whether a match that is kept as text matches the packet.
fn extension(extension: &Extension, packet: &PacketState<'_>) -> MatchResult {
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
        // Only connections have one, and a mark of none does not match even with `!`.
        "connmark" if packet.tracking != Tracking::Tracked => MatchResult::No,
        "connmark" => all(&|option| {
            let bits = MarkBits::read(option.only_value()?)?;
            Some(bits.matches(packet.connection_mark))
        }),
        // Without a connection, only the state is compared.
        "conntrack" if packet.tracking != Tracking::Tracked => {
            let mut states = options.iter().filter(|option| &*option.name == "--ctstate");
            states.next().map_or(MatchResult::No, |option| {
                let states = option.only_value().and_then(ConntrackStates::read);
                let is_in = states.and_then(|states| is_in_state(states, packet));
                is_in.map(|is_in| is_in != option.negated).into()
            })
        }
        "conntrack" => all(&|option| matches_connection(option, packet)),
        // Only connections that another one announced have a helper's name.
        "helper" => all(&|_| Some(false)),
        "iprange" => all(&|option| {
            let range = option.only_value()?;
            match &*option.name {
                "--src-range" => is_in_range(range, packet.source),
                "--dst-range" => packet.destination_is(|ip| is_in_range(range, ip)),
                _ => None,
            }
        }),
        // Packets through `lo` have no link-layer address, and do not match even with `!`.
        "mac" if packet.is_looped_back() => MatchResult::No,
        "multiport" => all(&|option| has_port_of(option, packet)),
        "owner" if !packet.has_socket() => all(&|_| Some(false)),
        // The socket of a reply may be that of the listening process, or of no process yet.
        "owner" if packet.direction == Direction::Reply => MatchResult::Undecided,
        "owner" => all(&|option| (&*option.name == "--socket-exists").then_some(true)),
        "physdev" => all(&|_| is_from_bridge_port(packet)),
        "pkttype" => all(&|option| {
            let is_unicast =
                packet.direction == Direction::Reply || is_unicast(packet.original.destination);
            is_unicast.then_some(option.only_value()? == "unicast")
        }),
        "recent" if options.iter().any(|option| &*option.name == "--set") => {
            let is_inverted = options.iter().any(|option| option.negated);
            (!is_inverted).into()
        }
        // Packets come in where the route back to their source leads. Others are spoofed, or the
        // network routes the two directions differently.
        "rpfilter" => (!options.iter().any(|option| &*option.name == "--invert")).into(),
        "set" => is_in_set(&options, packet).into(),
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

/// Reports whether a port is in one of the ranges of `multiport`; `None` if that depends on which
/// of its possible ports the packet has.
fn has_port_of(option: &ExtensionOption, packet: &PacketState<'_>) -> Option<bool> {
    let ranges = option.only_value()?.split(',').map(PortRange::read);
    let ranges: Vec<PortRange> = ranges.collect::<Option<_>>()?;
    let has = |ports: PortRange| {
        let mut is_in = ranges.iter().map(|range| range.contains_any(ports));
        let is_in_any = is_in.clone().any(|is_in| is_in == Some(true));
        (is_in_any || is_in.all(|is_in| is_in == Some(false))).then_some(is_in_any)
    };
    match &*option.name {
        "--sports" | "--source-ports" => has(packet.source_port),
        "--dports" | "--destination-ports" => has(packet.port),
        "--ports" => match (has(packet.source_port), has(packet.port)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (source, destination) => Some(source? || destination?),
        },
        _ => None,
    }
}

/// Reports whether the packet entered by a port of a bridge. Receivers of connections are mostly
/// pods, which some networks attach to bridges.
fn is_from_bridge_port(packet: &PacketState<'_>) -> Option<bool> {
    let is_known = packet.is_from_node()
        || (packet.direction == Direction::Original
            && packet.original.bridge_port == BridgePort::None);
    is_known.then_some(false)
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
        let is_of = |ip| {
            // The routes of one interface alone do not show addresses of the others as local.
            let has_same_type_anywhere = !packet.traced_node.is_local(ip);
            let types = AddressTypes::read(option.only_value()?)?;
            has_same_type_anywhere.then(|| is_of_type(types, ip, packet.traced_node))?
        };
        match &*option.name {
            "--src-type" => is_of(packet.source),
            "--dst-type" => packet.destination_is(is_of),
            "--limit-iface-in" | "--limit-iface-out" => Some(true),
            _ => None,
        }
    })
}

/// Reports whether `set` matches. Options on the counters of elements are not supported.
fn is_in_set(options: &[ExtensionOption], packet: &PacketState<'_>) -> Option<bool> {
    let host = packet.traced_node.host.as_ref()?;
    let [option] = options else { return None };
    let ("--match-set", [set, sides]) = (&*option.name, option.values.as_slice()) else {
        return None;
    };
    let sides = sides.split(',').map(|side| match side {
        "src" => Some(Side::Source),
        "dst" => Some(Side::Destination),
        _ => None,
    });
    let sides: Vec<Side> = sides.collect::<Option<_>>()?;
    let single = |ports: PortRange| (ports.first == ports.last).then_some(ports.first);
    let is_in = packet.destination_is(|destination| {
        let element = SetElement {
            sides: &sides,
            source: packet.source,
            destination,
            protocol: packet.original.protocol,
            source_port: single(packet.source_port),
            port: single(packet.port),
        };
        host.is_in_set(set, &element)
    });
    is_in.map(|is_in| is_in != option.negated)
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

/// Reports whether an option on ports or TCP flags matches: a connection begins with SYN alone, and
/// the reply to it is SYN with ACK.
fn transport(option: &ExtensionOption, packet: &PacketState<'_>) -> Option<bool> {
    match &*option.name {
        "--dport" | "--destination-port" => {
            PortRange::read(option.only_value()?)?.contains_any(packet.port)
        }
        "--sport" | "--source-port" => {
            PortRange::read(option.only_value()?)?.contains_any(packet.source_port)
        }
        "--syn" => Some(packet.direction == Direction::Original),
        "--tcp-flags" => match option.values.as_slice() {
            [mask, set] => Some(has_flags(mask, set, packet.direction)),
            _ => None,
        },
        _ => None,
    }
}

/// Reports whether, of the TCP flags in `mask`, exactly those in `set` are set.
fn has_flags(mask: &str, set: &str, direction: Direction) -> bool {
    let is_in = |list: &str, flag: &str| list.split(',').any(|one| [flag, "ALL"].contains(&one));
    FLAGS.iter().all(|flag| {
        let is_set = match *flag {
            "SYN" => true,
            "ACK" => direction == Direction::Reply,
            _ => false,
        };
        (is_set && is_in(mask, flag)) == is_in(set, flag)
    })
}

const FLAGS: &[&str] = &["FIN", "SYN", "RST", "PSH", "ACK", "URG"];

/// Reports whether `--ctstate` or `--state` matches: the state of a first packet is NEW, of the
/// reply ESTABLISHED, and DNAT and SNAT match in addition once an address was translated.
pub(super) fn is_in_state(states: ConntrackStates, packet: &PacketState<'_>) -> Option<bool> {
    let own = match (packet.tracking, packet.direction) {
        (Tracking::Pending, _) => return Some(states.contains("INVALID")),
        (Tracking::Untracked, _) => return Some(states.contains("UNTRACKED")),
        (Tracking::Tracked, Direction::Original) => "NEW",
        (Tracking::Tracked, Direction::Reply) => "ESTABLISHED",
    };
    if states.contains(own) || (packet.is_translated && states.contains("DNAT")) {
        return Some(true);
    }
    // The source may have been translated to itself, which is not SNAT.
    (packet.new_source.is_none() || !states.contains("SNAT")).then_some(false)
}

/// Reports whether an option of `conntrack` matches, without its negation; `None` if unknown.
fn matches_connection(option: &ExtensionOption, packet: &PacketState<'_>) -> Option<bool> {
    let value = option.only_value()?;
    let original = packet.original;
    let is_in = |ip| Some(value.parse::<Network>().ok()?.contains(ip));
    let is_port = |port| Some(PortRange::read(value)?.contains(port));
    match &*option.name {
        "--ctstate" => is_in_state(ConntrackStates::read(value)?, packet),
        "--ctstatus" => Some(has_status(value, packet)),
        "--ctproto" => {
            let protocol = Protocol::from_iptables(&value.to_ascii_lowercase());
            Some(protocol == Some(original.protocol))
        }
        "--ctdir" => Some(value.eq_ignore_ascii_case(match packet.direction {
            Direction::Original => "ORIGINAL",
            Direction::Reply => "REPLY",
        })),
        "--ctorigsrc" => is_in(original.source),
        "--ctorigdst" => is_in(original.destination),
        "--ctorigsrcport" => PortRange::read(value)?.contains_any(CLIENT_PORTS),
        "--ctorigdstport" => is_port(original.port.get()),
        // Replies come from the address that the packet was translated to.
        "--ctreplsrc" => is_in(packet.receiver),
        "--ctreplsrcport" => is_port(packet.receiver_port),
        "--ctrepldst" if packet.new_source.is_none() => is_in(original.source),
        _ => None,
    }
}

/// Reports whether the connection has one of the statuses. None of them is set before its first
/// packet has left; `NONE` matches no connection.
fn has_status(statuses: &str, packet: &PacketState<'_>) -> bool {
    let own: &[&str] = match packet.direction {
        Direction::Reply => &["CONFIRMED", "SEEN_REPLY"],
        Direction::Original if packet.is_looped_back() => &["CONFIRMED"],
        Direction::Original => &[],
    };
    let mut statuses = statuses.split(',');
    statuses.any(|status| own.iter().any(|own| status.eq_ignore_ascii_case(own)))
}

/// Reports whether `addrtype` matches an address; `None` if that depends on routes.
pub(super) fn is_of_type(
    types: AddressTypes,
    ip: IpAddr,
    traced_node: &TracedNode,
) -> Option<bool> {
    match ip {
        IpAddr::V4(v4) => is_of_v4_type(types, v4, traced_node),
        IpAddr::V6(_) => is_of_v6_type(types, ip, traced_node),
    }
}

/// The kernel looks up IPv4 addresses in the table of local addresses only, so that blackhole and
/// unreachable routes have no effect.
fn is_of_v4_type(types: AddressTypes, ip: Ipv4Addr, traced_node: &TracedNode) -> Option<bool> {
    let is_zero_net = ip.octets().first() == Some(&0);
    let has_type = |name| types.contains(name);
    match () {
        () if is_zero_net || ip.is_broadcast() => Some(has_type("BROADCAST")),
        () if ip.is_multicast() => Some(has_type("MULTICAST")),
        () if traced_node.is_local(ip.into()) => Some(has_type("LOCAL")),
        () if is_perhaps_broadcast(ip, traced_node) => {
            let is_unicast = has_type("UNICAST");
            (is_unicast == has_type("BROADCAST")).then_some(is_unicast)
        }
        () => Some(has_type("UNICAST")),
    }
}

/// Reports whether the address may be the broadcast address of a network that the node is in: all
/// bits after the prefix are ones, and an address of the node has the same prefix. The length of
/// the prefix is not known, so that the shortest is assumed.
fn is_perhaps_broadcast(ip: Ipv4Addr, traced_node: &TracedNode) -> bool {
    let host_bits = u32::from(ip).trailing_ones();
    let is_neighbor = |own: &IpAddr| match own {
        IpAddr::V4(own) => (u32::from(*own) ^ u32::from(ip)).leading_zeros() >= 32 - host_bits,
        IpAddr::V6(_) => false,
    };
    // Networks of two addresses have none. The node may have networks that are not known.
    host_bits >= 8 || (host_bits >= 2 && traced_node.addresses.iter().any(is_neighbor))
}

/// For IPv6, unicast and multicast are properties of the address that are required in addition to
/// the type of its route.
fn is_of_v6_type(types: AddressTypes, ip: IpAddr, traced_node: &TracedNode) -> Option<bool> {
    let has_type = |name| types.contains(name);
    let is_contradicted = (has_type("MULTICAST") && !ip.is_multicast())
        || (has_type("UNICAST") && (ip.is_multicast() || ip.is_unspecified()))
        || (has_type("UNSPEC") && !ip.is_unspecified());
    let depends_on_route = has_type("ANYCAST") || has_type("UNREACHABLE");
    match () {
        () if is_contradicted => Some(false),
        () if !has_type("LOCAL") && !depends_on_route => Some(true),
        () if traced_node.is_local(ip) => has_type("LOCAL").then_some(true),
        () => (!depends_on_route).then_some(false),
    }
}

/// Reports whether an address is in a range such as `10.0.0.1-10.0.0.9`; `None` if the text is not
/// a range.
fn is_in_range(range: &str, ip: IpAddr) -> Option<bool> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
    let is_comparable = first.is_ipv4() == ip.is_ipv4() && last.is_ipv4() == ip.is_ipv4();
    Some(is_comparable && first <= ip && ip <= last)
}

/// Reports whether packets to the address are sent to one receiver on the link.
fn is_unicast(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !ip.is_multicast() && !is_broadcast
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetEffect {
    /// The packet continues with the next rule, with these marks.
    Continue {
        mark: u32,
        connection_mark: u32,
    },
    NewDestination {
        address: IpAddr,
        port: u16,
    },
    NewSource(PacketAddress),
    /// The packet is exempted from connection tracking, and continues with the next rule.
    NoTracking,
    /// Not modeled.
    Unsupported,
}

/// Returns the effect of a target that is kept as text.
pub(super) fn effect(target: &Extension, hook: Hook, packet: &PacketState<'_>) -> TargetEffect {
    let options = target.read_options().unwrap_or_default();
    let unchanged = TargetEffect::Continue {
        mark: packet.mark,
        connection_mark: packet.connection_mark,
    };
    let supported = match &*target.name {
        // The packet continues unchanged, as far as it is modeled here.
        "AUDIT" | "CHECKSUM" | "CLASSIFY" | "CONNSECMARK" | "DSCP" | "ECN" | "HL" | "IDLETIMER"
        | "LED" | "LOG" | "NFLOG" | "RATEEST" | "SECMARK" | "SET" | "TCPMSS" | "TCPOPTSTRIP"
        | "TEE" | "TOS" | "TRACE" | "TTL" | "ULOG" => Some(unchanged),
        "CONNMARK" if packet.tracking != Tracking::Tracked => Some(unchanged),
        "CONNMARK" => connection_mark(&options, packet),
        // Without effect on packets that were tracked before they came in again.
        "CT" | "NOTRACK" if packet.tracking != Tracking::Pending => Some(unchanged),
        _ if target.exempts_from_tracking() => Some(TargetEffect::NoTracking),
        "CT" => {
            let mut names = options.iter().map(|option| &*option.name);
            // These change neither tracking nor translation. A zone may hide the connection from
            // its replies.
            let is_harmless =
                |name| ["--ctevents", "--expevents", "--helper", "--timeout"].contains(&name);
            names.all(is_harmless).then_some(unchanged)
        }
        "DNAT" => destination(&options, packet),
        "MASQUERADE" => Some(TargetEffect::NewSource(masquerade_address(packet))),
        "SNAT" => {
            let address = target.new_source();
            let address = address.map_or(PacketAddress::Unknown, PacketAddress::Known);
            Some(TargetEffect::NewSource(address))
        }
        "NETMAP" => match hook {
            Hook::NatPostrouting | Hook::NatInput => {
                Some(TargetEffect::NewSource(PacketAddress::Unknown))
            }
            _ => mapped(&options, packet),
        },
        "REDIRECT" => redirected(&options, hook, packet),
        _ => None,
    };
    supported.unwrap_or(TargetEffect::Unsupported)
}

/// Returns the source address that `MASQUERADE` sets: that of the outgoing interface.
pub(super) fn masquerade_address(packet: &PacketState<'_>) -> PacketAddress {
    match packet.outgoing {
        // The kernel may choose an address of another interface.
        Interface::Named("lo") => PacketAddress::Unknown,
        _ => PacketAddress::Node,
    }
}

fn value<'o>(options: &'o [ExtensionOption], name: &str) -> Option<&'o str> {
    let option = options.iter().find(|option| &*option.name == name)?;
    option.only_value()
}

/// Returns the marks after `CONNMARK`, which copies bits between the packet and its connection.
fn connection_mark(options: &[ExtensionOption], packet: &PacketState<'_>) -> Option<TargetEffect> {
    let (first, masks) = options.split_first()?;
    let (mark, connection_mark) = (packet.mark, packet.connection_mark);
    if let Some(bits) = first
        .only_value()
        .and_then(|value| MarkBits::set_by(&first.name, value))
    {
        return masks.is_empty().then_some(TargetEffect::Continue {
            mark,
            connection_mark: bits.apply(connection_mark),
        });
    }
    let (mut of_packet, mut of_connection) = (u32::MAX, u32::MAX);
    for option in masks {
        let bits = number(option.only_value()?)?;
        match &*option.name {
            "--nfmask" => of_packet = bits,
            "--ctmask" => of_connection = bits,
            "--mask" => (of_packet, of_connection) = (bits, bits),
            _ => return None,
        }
    }
    match &*first.name {
        "--save-mark" => Some(TargetEffect::Continue {
            mark,
            connection_mark: (connection_mark & !of_connection) ^ (mark & of_packet),
        }),
        "--restore-mark" => Some(TargetEffect::Continue {
            mark: (mark & !of_packet) ^ (connection_mark & of_connection),
            connection_mark,
        }),
        _ => None,
    }
}

/// Returns the destination of a `DNAT` to one address or port; from a range, the kernel chooses.
fn destination(options: &[ExtensionOption], packet: &PacketState<'_>) -> Option<TargetEffect> {
    let to = value(options, "--to-destination")?;
    let (address, port) = match to.rsplit_once(':') {
        Some(("", port)) => (packet.receiver, port.parse().ok()?),
        Some((address, port)) if address.parse::<Ipv4Addr>().is_ok() => {
            (address.parse().ok()?, port.parse().ok()?)
        }
        Some((address, port)) if address.ends_with(']') => {
            let address = address.trim_matches(['[', ']']);
            (address.parse().ok()?, port.parse().ok()?)
        }
        _ => (to.parse().ok()?, packet.receiver_port),
    };
    Some(TargetEffect::NewDestination { address, port })
}

fn mapped(options: &[ExtensionOption], packet: &PacketState<'_>) -> Option<TargetEffect> {
    let network: Network = value(options, "--to")?.parse().ok()?;
    Some(TargetEffect::NewDestination {
        address: network.mapped(packet.receiver)?,
        port: packet.receiver_port,
    })
}

/// Returns the address of the node to which `REDIRECT` translates: the first of the incoming
/// interface, which is known only if the node has no other, or localhost for its own packets.
fn redirected(
    options: &[ExtensionOption],
    hook: Hook,
    packet: &PacketState<'_>,
) -> Option<TargetEffect> {
    let port = match value(options, "--to-ports") {
        Some(port) => port.parse().ok()?,
        None => packet.receiver_port,
    };
    let is_v4 = packet.receiver.is_ipv4();
    let address = if hook.has_incoming() {
        let addresses = packet.traced_node.addresses.iter();
        let mut own = addresses.filter(|ip| ip.is_ipv4() == is_v4 && !ip.is_loopback());
        let first = own.next()?;
        own.next().is_none().then_some(*first)?
    } else if is_v4 {
        Ipv4Addr::LOCALHOST.into()
    } else {
        Ipv6Addr::LOCALHOST.into()
    };
    Some(TargetEffect::NewDestination { address, port })
}
