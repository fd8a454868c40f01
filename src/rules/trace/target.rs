//! Effects of targets that are kept as text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::hook::Hook;
use super::packet::{Interface, PacketAddress, PacketState, Tracking};
use crate::rules::grammar::{Extension, ExtensionOption, MarkBits, Network, number};

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
        name if WITHOUT_EFFECT.contains(&name) => Some(unchanged),
        "CONNMARK" if packet.tracking != Tracking::Tracked => Some(unchanged),
        "CONNMARK" => connection_mark(&options, packet),
        // Without effect on packets that were tracked before they came in again.
        "CT" | "NOTRACK" if packet.tracking != Tracking::Pending => Some(unchanged),
        _ if target.exempts_from_tracking() => Some(TargetEffect::NoTracking),
        "CT" => {
            let mut names = options.iter().map(|option| &*option.name);
            let is_harmless = |name: &str| CT_WITHOUT_EFFECT.contains(&name);
            names.all(is_harmless).then_some(unchanged)
        }
        "DNAT" => destination(&options, packet),
        "MASQUERADE" => Some(TargetEffect::NewSource(masquerade_address(packet))),
        "SNAT" => {
            let address = value(&options, "--to-source").and_then(only_address);
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

/// Options of `CT` that change neither tracking nor translation. A zone may hide the connection
/// from its replies.
const CT_WITHOUT_EFFECT: &[&str] = &["--ctevents", "--expevents", "--helper", "--timeout"];

/// Returns the address of `--to-source` or `--to-destination`, with or without ports; `None` for a
/// range of addresses.
fn only_address(to: &str) -> Option<IpAddr> {
    let address = to.rsplit_once(':').map(|(address, _)| address);
    let parsed = to.parse().ok();
    parsed.or_else(|| address?.trim_matches(['[', ']']).parse().ok())
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

/// Targets after which the packet continues unchanged, as far as it is modeled here.
const WITHOUT_EFFECT: &[&str] = &[
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CONNSECMARK",
    "DSCP",
    "ECN",
    "HL",
    "IDLETIMER",
    "LED",
    "LOG",
    "NFLOG",
    "RATEEST",
    "SECMARK",
    "SET",
    "TCPMSS",
    "TCPOPTSTRIP",
    "TEE",
    "TOS",
    "TRACE",
    "TTL",
    "ULOG",
];
