//! From the options after `-j` to a [`Target`].
//!
//! Apart from [`spec`](super::spec) for the same reason as the matches: each target has its own
//! words, and one unknown word makes it an extension.

use std::net::{IpAddr, SocketAddr};

use super::condition::{Bits, number};
use super::matches::Extension;
use super::spec::{Flag, Group};
use super::target::Target;

/// Targets that may stand without options, so that their name alone would look like a chain.
const EXTENSIONS: &[&str] = &[
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CLUSTERIP",
    "CONNMARK",
    "CONNSECMARK",
    "CT",
    "DNAT",
    "DNPT",
    "DSCP",
    "ECN",
    "HL",
    "HMARK",
    "IDLETIMER",
    "LED",
    "LOG",
    "MARK",
    "MASQUERADE",
    "NETMAP",
    "NFLOG",
    "NFQUEUE",
    "NOTRACK",
    "QUEUE",
    "RATEEST",
    "REDIRECT",
    "REJECT",
    "SECMARK",
    "SET",
    "SNAT",
    "SNPT",
    "SYNPROXY",
    "TCPMSS",
    "TCPOPTSTRIP",
    "TEE",
    "TOS",
    "TPROXY",
    "TRACE",
    "TTL",
    "ULOG",
];

/// Reads the target; the first flag of the group is the `-j` or `-g` itself. `None`: there was
/// none.
pub(super) fn read(group: &Group<'_>) -> Option<Target> {
    let (jump, flags) = group.flags.split_first()?;
    Some(understood(group.name, *jump, flags).unwrap_or_else(|| {
        let options = Group {
            name: group.name,
            flags: flags.to_vec(),
        }
        .options();
        let name = group.name.into();
        Target::Other(Extension { name, options })
    }))
}

fn understood(name: &str, jump: Flag<'_>, flags: &[Flag<'_>]) -> Option<Target> {
    match (name, flags) {
        _ if matches!(jump.name, "-g" | "--goto") => Some(Target::Goto(name.into())),
        ("ACCEPT", []) => Some(Target::Accept),
        ("DROP", []) => Some(Target::Drop),
        ("RETURN", []) => Some(Target::Return),
        ("REJECT", flags) => reject(flags),
        ("MARK", [flag]) => mark(*flag).map(Target::Mark),
        ("DNAT", [flag]) if flag.name == "--to-destination" => dnat(flag.only_value()?),
        ("MASQUERADE", []) => Some(Target::Masquerade {
            is_fully_random: false,
        }),
        ("MASQUERADE", [flag]) if flag.name == "--random-fully" => Some(Target::Masquerade {
            is_fully_random: true,
        }),
        (_, []) if !EXTENSIONS.contains(&name) => Some(Target::Jump(name.into())),
        _ => None,
    }
}

fn reject(flags: &[Flag<'_>]) -> Option<Target> {
    let with = match flags {
        [] => return Some(Target::Reject(None)),
        [flag] if flag.name == "--reject-with" => flag.only_value()?,
        _ => return None,
    };
    Some(Target::Reject(match with {
        "icmp-port-unreachable" | "icmp6-port-unreachable" | "port-unreach" => None,
        other => Some(other.into()),
    }))
}

/// All the spellings come down to "clear these bits, flip those".
fn mark(flag: Flag<'_>) -> Option<Bits> {
    let value = flag.only_value()?;
    let bits = |value, mask| Some(Bits { value, mask });
    match flag.name {
        "--set-xmark" => Bits::read(value),
        "--set-mark" => Bits::read(value).and_then(|set| bits(set.value, set.mask | set.value)),
        "--or-mark" => number(value).and_then(|or| bits(or, or)),
        "--xor-mark" => number(value).and_then(|xor| bits(xor, 0)),
        "--and-mark" => number(value).and_then(|and| bits(0, !and)),
        _ => None,
    }
}

fn dnat(text: &str) -> Option<Target> {
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(Target::Dnat {
            address: socket.ip(),
            port: Some(socket.port()),
        });
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let address: IpAddr = bare.parse().ok()?;
    Some(Target::Dnat {
        address,
        port: None,
    })
}
