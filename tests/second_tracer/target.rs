//! Targets after which a packet goes on, and the marks that they set.

use super::condition::hex;

/// A mark after `--set-xmark` and its other spellings.
pub fn changed(mark: u32, way: &str, text: &str) -> u32 {
    let (value, cleared) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    let (value, cleared) = (hex(value), hex(cleared));
    match way {
        "--set-xmark" => mark & !cleared ^ value,
        "--set-mark" => mark & !(cleared | value) ^ value,
        "--or-mark" => mark | value,
        "--and-mark" => mark & value,
        other => panic!("{other}"),
    }
}

/// Whether it is an extension after which the packet goes on.
pub fn is_target(name: &str) -> bool {
    let known = [
        "MARK",
        "CONNMARK",
        "CT",
        "NOTRACK",
        "LOG",
        "NFLOG",
        "TRACE",
        "TCPMSS",
        "SET",
        "TEE",
        "TTL",
        "HL",
        "DSCP",
        "TOS",
        "CLASSIFY",
        "CHECKSUM",
        "AUDIT",
        "IDLETIMER",
        "ECN",
        "TCPOPTSTRIP",
        "CONNSECMARK",
        "SECMARK",
        "RATEEST",
        "LED",
        "ULOG",
    ];
    known.contains(&name)
}
