//! `packet` statements: what happens to one packet, over all random choices.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use deltaproxy::testing::net::{Port, Protocol};
use deltaproxy::testing::rules::{BridgePort, Packet, RuleSet, Share, TracedNode, Verdict, trace};

use super::options::{ip, number};

/// The packet, the `recent` lists that know its source, and the words about its ending.
type Question<'a> = (Packet, Vec<Box<str>>, &'a [String]);

/// How packets end, and how many of them.
type Endings = BTreeMap<Verdict, Share>;

/// `SOURCE -> DEST:PORT[/PROTOCOL] [via INTERFACE] [seen CHAIN]... ENDING`, where the ending is
/// `to EP [SHARE] [masqueraded|source kept], ...`, `drop`, `reject` or `untouched`. Without shares
/// they have to be even. What stands behind the last endpoint about the source holds for all that
/// say nothing.
pub(crate) fn check(
    words: &[String],
    rules: &RuleSet,
    traced_node: &TracedNode,
) -> Result<(), String> {
    let (packet, seen, ending) = read(words)?;
    let mut traced_node = traced_node.clone();
    traced_node.recent_lists.extend(seen);
    let expected = endings(ending)?;
    let mut actual = Endings::new();
    let outcomes = trace(rules, &packet, &traced_node);
    for outcome in &outcomes {
        let share = actual.entry(outcome.verdict.clone()).or_insert(Share::NONE);
        *share = share.plus(outcome.share);
    }
    if actual == expected {
        return Ok(());
    }
    let mut message = format!("the packet\n  expected\n{}", show(&expected));
    message.push_str("  found\n");
    message.push_str(&show(&actual));
    for outcome in outcomes {
        let _ = writeln!(message, "  {} {}", outcome.share, outcome.verdict);
        for step in outcome.steps {
            let _ = writeln!(message, "    {step}");
        }
    }
    Err(message)
}

fn show(endings: &Endings) -> String {
    let mut text = String::new();
    for (verdict, share) in endings {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {share} {verdict}");
    }
    text
}

fn read(words: &[String]) -> Result<Question<'_>, String> {
    let [source, arrow, destination, rest @ ..] = words else {
        return Err("SOURCE -> DEST:PORT is needed".to_owned());
    };
    if arrow != "->" {
        return Err(format!("`->` is needed instead of `{arrow}`"));
    }
    let (destination, protocol) = match destination.split_once('/') {
        None | Some((_, "tcp")) => (destination.trim_end_matches("/tcp"), Protocol::Tcp),
        Some((destination, "udp")) => (destination, Protocol::Udp),
        Some((destination, "sctp")) => (destination, Protocol::Sctp),
        Some((_, other)) => return Err(format!("`{other}` is no protocol")),
    };
    let destination: SocketAddr = number(destination)?;
    let mut packet = Packet {
        source: ip(source)?,
        destination: destination.ip(),
        protocol,
        port: Port::new(destination.port()).ok_or("port 0")?,
        in_interface: None,
        bridge_port: BridgePort::None,
    };
    let mut seen = Vec::new();
    let mut rest = rest;
    loop {
        match rest {
            [word, name, after @ ..] if word == "via" => {
                packet.in_interface = Some(name.as_str().into());
                rest = after;
            }
            [word, chain, after @ ..] if word == "seen" => {
                seen.push(chain.as_str().into());
                rest = after;
            }
            ending => return Ok((packet, seen, ending)),
        }
    }
}

fn endings(words: &[String]) -> Result<Endings, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["drop"] => Ok(all(Verdict::Dropped)),
        ["reject"] => Ok(all(Verdict::Rejected)),
        ["untouched"] => Ok(all(Verdict::Passed { masqueraded: false })),
        ["to", endpoints @ ..] => delivered(&endpoints.join(" ")),
        other => Err(format!("`{}` is no ending", other.join(" "))),
    }
}

fn all(verdict: Verdict) -> Endings {
    Endings::from([(verdict, Share::ALL)])
}

fn delivered(text: &str) -> Result<Endings, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let about_source = |part: &str| match part {
        _ if part.ends_with(" masqueraded") => Some(true),
        _ if part.ends_with(" source kept") => Some(false),
        _ => None,
    };
    let default = parts.last().and_then(|part| about_source(part));
    let mut endings = Endings::new();
    for part in &parts {
        let said = about_source(part).or(default);
        let masqueraded = said.ok_or("`masqueraded` or `source kept`?")?;
        let mut words = part.split(' ');
        let to: SocketAddr = number(words.next().unwrap_or_default())?;
        let share = words.next().and_then(|word| word.split_once('/'));
        let share = match share {
            Some((of, all)) => Share::new(number(of)?, number(all)?),
            None => Share::new(1, parts.len() as u128),
        };
        let verdict = Verdict::Delivered {
            to: to.ip(),
            port: to.port(),
            masqueraded,
        };
        endings.insert(verdict, share);
    }
    Ok(endings)
}
