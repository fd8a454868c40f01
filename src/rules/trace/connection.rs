//! Decides matches on the conntrack entry of the first packet of a connection.

use super::packet::PacketState;
use crate::rules::grammar::{ConntrackStates, ExtensionOption, Network, PortRange};

/// Reports whether `--ctstate` or `--state` matches: the state of a first packet is NEW, and DNAT
/// and SNAT match in addition once an address was translated.
pub(super) fn is_in_state(states: ConntrackStates, packet: &PacketState<'_>) -> Option<bool> {
    if states.contains("NEW") || (packet.is_translated && states.contains("DNAT")) {
        return Some(true);
    }
    // The source may have been translated to itself, which is not SNAT.
    (!packet.is_masqueraded || !states.contains("SNAT")).then_some(false)
}

/// Reports whether an option of `conntrack` matches, without its negation; `None` if unknown.
pub(super) fn matches(option: &ExtensionOption, packet: &PacketState<'_>) -> Option<bool> {
    let value = option.only_value()?;
    let original = packet.original;
    let is_in = |ip| Some(value.parse::<Network>().ok()?.contains(ip));
    let is_port = |port| Some(PortRange::read(value)?.contains(port));
    match &*option.name {
        "--ctstate" => is_in_state(ConntrackStates::read(value)?, packet),
        "--ctstatus" => Some(has_status(value, packet)),
        "--ctproto" => {
            let name = original.protocol.as_str();
            Some(value.eq_ignore_ascii_case(name) || value == protocol_number(name))
        }
        "--ctdir" => Some(value.eq_ignore_ascii_case("ORIGINAL")),
        "--ctorigsrc" => is_in(original.source),
        "--ctorigdst" => is_in(original.destination),
        "--ctorigdstport" => is_port(original.port.get()),
        // Replies come from the address that the packet was translated to.
        "--ctreplsrc" => is_in(packet.destination),
        "--ctreplsrcport" => is_port(packet.port),
        "--ctrepldst" if !packet.is_masqueraded => is_in(original.source),
        _ => None,
    }
}

/// Reports whether the connection has one of the statuses. None of them is set before its first
/// packet has left; `NONE` matches no connection.
fn has_status(statuses: &str, packet: &PacketState<'_>) -> bool {
    let mut statuses = statuses.split(',');
    packet.is_looped_back() && statuses.any(|status| status.eq_ignore_ascii_case("CONFIRMED"))
}

fn protocol_number(name: &str) -> &'static str {
    match name {
        "tcp" => "6",
        "udp" => "17",
        _ => "132",
    }
}
