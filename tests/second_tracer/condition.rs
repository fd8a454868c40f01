//! What a rule's conditions are for one packet, word by word.

use std::net::IpAddr;

use super::walk::{CLIENTS, Place, Question};

/// Truth of a condition, which may be unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Truth {
    Yes,
    No,
    Unknown,
    /// For this part of the packets.
    Part(f64),
}

impl Truth {
    fn turned(self, is_negated: bool) -> Self {
        match (self, is_negated) {
            (truth, false) => truth,
            (Self::Yes, true) => Self::No,
            (Self::No, true) => Self::Yes,
            (Self::Unknown, true) => Self::Unknown,
            (Self::Part(part), true) => Self::Part(1.0 - part),
        }
    }
}

impl From<bool> for Truth {
    fn from(is_true: bool) -> Self {
        if is_true { Self::Yes } else { Self::No }
    }
}

/// Evaluates all conditions of a rule together.
pub fn rule(words: &[String], question: &Question, place: &Place) -> Truth {
    let mut truths = Vec::new();
    let mut module = String::new();
    let mut at = 0;
    while at < words.len() {
        let is_negated = words[at] == "!";
        at += usize::from(is_negated);
        let name = words[at].as_str();
        let is_text = matches!(name, "--comment" | "--log-prefix" | "--nflog-prefix");
        let mut end = at + 1;
        while end < words.len() && (is_text && end == at + 1 || !is_option(&words[end])) {
            end += 1;
        }
        let values: Vec<&str> = words[at + 1..end].iter().map(String::as_str).collect();
        let value = values.first().copied().unwrap_or_default();
        match name {
            "-m" => {
                value.clone_into(&mut module);
                truths.push(bare(value, words, question, place));
            }
            "-j" | "-g" => break,
            // Without a connection, only its state counts. Options of other matches may follow it.
            _ if name.starts_with("--ct") && !place.has_connection() && name != "--ctstate" => {}
            // The module alone says it, whatever stands in front of its options.
            _ if name.starts_with("--") && ["cgroup", "recent", "rpfilter"].contains(&&*module) => {
            }
            _ => truths.push(one(&module, name, &values, question, place).turned(is_negated)),
        }
        at = end;
    }
    let part = truths.iter().map(|truth| match truth {
        Truth::Part(part) => *part,
        _ => 1.0,
    });
    let part: f64 = part.product();
    if truths.contains(&Truth::No) || part == 0.0 {
        Truth::No
    } else if truths.contains(&Truth::Unknown) {
        Truth::Unknown
    } else if part < 1.0 {
        Truth::Part(part)
    } else {
        Truth::Yes
    }
}

fn is_option(word: &str) -> bool {
    word == "!" || (word.len() > 1 && word.starts_with('-'))
}

/// Evaluates a module without its options.
fn bare(module: &str, words: &[String], question: &Question, place: &Place) -> Truth {
    let has = |name: &str| words.iter().any(|word| word == name);
    match module {
        "connmark" if !place.has_connection() => Truth::No,
        "conntrack" if !place.has_connection() && !has("--ctstate") => Truth::No,
        "comment" | "nfacct" | "addrtype" | "mark" | "connmark" | "conntrack" | "state"
        | "iprange" | "multiport" | "owner" | "physdev" | "pkttype" | "helper" | "statistic" => {
            Truth::Yes
        }
        "tcp" | "udp" | "sctp" => (module == question.protocol).into(),
        "icmp" | "icmp6" | "ah" | "esp" | "dccp" | "rt" | "frag" | "hbh" | "mh" => Truth::No,
        "recent" => recent(words, place),
        "cgroup" if !(place.is_from_node && place.is_leaving) => Truth::No,
        "rpfilter" => (!has("--invert")).into(),
        "mac" if place.is_from_node => Truth::No,
        _ => Truth::Unknown,
    }
}

/// Whether the rule has the option behind a `!`.
pub fn is_negated(words: &[String], name: &str) -> bool {
    words
        .windows(2)
        .any(|pair| pair[0] == "!" && pair[1] == name)
}

fn recent(words: &[String], place: &Place) -> Truth {
    let after = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)
    };
    if words.iter().any(|word| word == "--set") {
        return Truth::from(!is_negated(words, "--set"));
    }
    let list = after("--name").map_or("DEFAULT", String::as_str);
    let is_simple = !["--hitcount", "--rttl", "--remove", "--rdest"]
        .iter()
        .any(|name| words.iter().any(|word| word == name))
        && !["--rcheck", "--update"]
            .iter()
            .any(|name| is_negated(words, name));
    match () {
        () if is_simple && place.seen.contains(list) => Truth::Yes,
        () if is_simple && !place.is_reply && after("-j").is_some_and(|target| target == list) => {
            Truth::No
        }
        () => Truth::Unknown,
    }
}

fn one(module: &str, name: &str, values: &[&str], asked: &Question, place: &Place) -> Truth {
    let value = values.first().copied().unwrap_or_default();
    match name {
        "-s" => inside(value, place.source).into(),
        "-d" => known(place.ip, |ip| inside(value, ip)),
        "-p" => is_protocol(value, &asked.protocol).into(),
        "-i" => interface(value, place.incoming.as_deref()),
        "-o" => interface(value, place.outgoing.as_deref()),
        "-f" | "--helper" => Truth::No,
        "--dport" | "--dports" => some_port(place.port, value),
        "--sport" | "--sports" => some_port(place.source_port, value),
        "--ports" => {
            let both = [place.port, place.source_port].map(|port| some_port(port, value));
            if both.contains(&Truth::Yes) {
                Truth::Yes
            } else if both.contains(&Truth::Unknown) {
                Truth::Unknown
            } else {
                Truth::No
            }
        }
        "--tcp-flags" => flags(values[0], values[1], place.is_reply).into(),
        "--src-type" => kind(value, place.source, asked),
        "--dst-type" => place.ip.map_or(Truth::Unknown, |ip| kind(value, ip, asked)),
        "--src-range" => between(value, place.source).into(),
        "--dst-range" => known(place.ip, |ip| between(value, ip)),
        "--pkt-type" => (value == "unicast").into(),
        "--mark" if module == "mark" => bits(value, place.mark).into(),
        "--mark" if module == "connmark" => bits(value, place.connection_mark).into(),
        "--probability" => Truth::Part(value.parse().unwrap()),
        "--every" => Truth::Part(1.0 / value.parse::<f64>().unwrap()),
        _ => match module {
            "physdev" if (asked.may_be_bridged || place.is_reply) && !place.is_from_node => {
                Truth::Unknown
            }
            "physdev" => Truth::No,
            "owner" if !(place.is_from_node && place.is_leaving) => Truth::No,
            "owner" if place.is_reply => Truth::Unknown,
            "owner" if name == "--socket-exists" => Truth::Yes,
            "state" | "conntrack" => connection(name, value, asked, place),
            // Of another interface, an address may be as good as foreign.
            "addrtype"
                if asked.is_local(place.source) || place.ip.is_none_or(|ip| asked.is_local(ip)) =>
            {
                Truth::Unknown
            }
            "addrtype" | "comment" | "nfacct" | "statistic" => Truth::Yes,
            _ => Truth::Unknown,
        },
    }
}

fn connection(name: &str, value: &str, asked: &Question, place: &Place) -> Truth {
    let has = |state: &str| value.split(',').any(|one| one == state);
    match name {
        "--state" | "--ctstate" if !place.has_connection() => has(place.state).into(),
        "--state" | "--ctstate" => match () {
            () if has(place.state) || (has("DNAT") && place.is_translated) => Truth::Yes,
            () if has("SNAT") && place.is_masqueraded => Truth::Unknown,
            () => Truth::No,
        },
        "--ctstatus" => {
            let is_confirmed = place.is_reply || place.incoming.as_deref() == Some("lo");
            (has("CONFIRMED") && is_confirmed || has("SEEN_REPLY") && place.is_reply).into()
        }
        "--ctproto" => is_protocol(value, &asked.protocol).into(),
        "--ctdir" => (value == if place.is_reply { "REPLY" } else { "ORIGINAL" }).into(),
        "--ctorigsrc" => inside(value, asked.source).into(),
        "--ctorigdst" => inside(value, asked.destination).into(),
        "--ctorigsrcport" => some_port(CLIENTS, value),
        "--ctorigdstport" => port_in(value, asked.port).into(),
        "--ctreplsrc" => inside(value, place.receiver.0).into(),
        "--ctreplsrcport" => port_in(value, place.receiver.1).into(),
        "--ctrepldst" if !place.is_masqueraded => inside(value, asked.source).into(),
        _ => Truth::Unknown,
    }
}

/// Whether that is so of something that may not be known.
fn known<T>(what: Option<T>, is_so: impl Fn(T) -> bool) -> Truth {
    what.map_or(Truth::Unknown, |what| is_so(what).into())
}

/// Whether a port of this range is in a list, asked at the ends of all ranges.
fn some_port((first, last): (u16, u16), wanted: &str) -> Truth {
    let bounds = wanted
        .split([',', ':'])
        .filter_map(|n| n.parse::<u16>().ok());
    let near = bounds.flat_map(|n| [n.saturating_sub(1), n, n.saturating_add(1)]);
    let asked = near.filter(|port| (first..=last).contains(port));
    let mut found = asked.chain([first, last]).map(|port| ports(wanted, port));
    let is_first_in = ports(wanted, first);
    if found.all(|is_in| is_in == is_first_in) {
        is_first_in.into()
    } else {
        Truth::Unknown
    }
}

/// Whether of these flags of the first packet or its reply just those are there.
fn flags(looked_at: &str, wanted: &str, is_reply: bool) -> bool {
    let there: &[&str] = if is_reply { &["SYN", "ACK"] } else { &["SYN"] };
    let list = |text: &str| -> Vec<String> {
        match text {
            "ALL" => list_of("FIN,SYN,RST,PSH,ACK,URG"),
            "NONE" => Vec::new(),
            text => list_of(text),
        }
    };
    let mut found = list(looked_at);
    found.retain(|flag| there.contains(&flag.as_str()));
    let mut wanted = list(wanted);
    found.sort();
    wanted.sort();
    found == wanted
}

fn list_of(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn is_protocol(value: &str, protocol: &str) -> bool {
    match value {
        "all" | "0" => true,
        "6" => protocol == "tcp",
        "17" => protocol == "udp",
        name => name == protocol,
    }
}

/// Interfaces: none at this hook, `?` for one that is not `lo`, or by name.
fn interface(wanted: &str, known: Option<&str>) -> Truth {
    match (known, wanted.strip_suffix('+')) {
        (None, _) => Truth::No,
        (Some("?"), _) if wanted == "lo" => Truth::No,
        (Some("any" | "?"), _) => Truth::Unknown,
        (Some(name), Some(prefix)) => name.starts_with(prefix).into(),
        (Some(name), None) => (name == wanted).into(),
    }
}

fn kind(types: &str, ip: IpAddr, asked: &Question) -> Truth {
    let has = |kind: &str| types.split(',').any(|one| one == kind);
    let is_local = asked.is_local(ip);
    if ip.is_ipv6() {
        return match () {
            () if has("MULTICAST") => ip.is_multicast().into(),
            () if has("UNICAST") && !has("LOCAL") => (!ip.is_multicast()).into(),
            () if has("LOCAL") => is_local.into(),
            () => Truth::Unknown,
        };
    }
    match () {
        () if ip.is_multicast() => has("MULTICAST").into(),
        () if is_local => has("LOCAL").into(),
        () if ip.to_string().ends_with(".255") && has("BROADCAST") != has("UNICAST") => {
            Truth::Unknown
        }
        () => has("UNICAST").into(),
    }
}

/// Addresses as bits, IPv4 in the lowest.
fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u32::from(ip).into(),
        IpAddr::V6(ip) => ip.into(),
    }
}

pub fn inside(network: &str, ip: IpAddr) -> bool {
    let (base, mask) = network.split_once('/').unwrap_or((network, ""));
    let base: IpAddr = base.parse().unwrap();
    let width = if base.is_ipv4() { 32 } else { 128 };
    let mask = match mask.parse::<u32>() {
        Ok(0) => 0,
        Ok(length) => (u128::MAX >> (128 - length)) << (width - length),
        Err(_) if mask.is_empty() => u128::MAX,
        Err(_) => number(mask.parse().unwrap()),
    };
    base.is_ipv4() == ip.is_ipv4() && number(base) & mask == number(ip) & mask
}

fn between(range: &str, ip: IpAddr) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let ends = [first, last].map(|end| end.parse::<IpAddr>().unwrap());
    ends[0].is_ipv4() == ip.is_ipv4() && (ends[0]..=ends[1]).contains(&ip)
}

fn port_in(range: &str, port: u16) -> bool {
    let (first, last) = range.split_once(':').unwrap_or((range, range));
    let first = first.parse().unwrap_or(0_u16);
    let last = last.parse().unwrap_or(u16::MAX);
    (first..=last).contains(&port)
}

fn ports(list: &str, port: u16) -> bool {
    list.split(',').any(|range| port_in(range, port))
}

fn bits(text: &str, mark: u32) -> bool {
    let (value, compared) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    mark & hex(compared) == hex(value)
}

/// A number with or without `0x`.
pub fn hex(text: &str) -> u32 {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}
