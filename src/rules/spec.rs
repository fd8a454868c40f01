//! From the words of a rule to the rule.
//!
//! Apart from the rule because of one difficulty: which match an option belongs to. It is the
//! last `-m` or `-j` before it, except that `--dport` and its like go with the protocol, which
//! may be named later or not at all: `-m tcp -p tcp -d 10.0.0.1 --dport 80`.

use std::borrow::Cow;

use super::condition::Negatable;
use super::network::Network;
use super::read_match::{self, by_name};
use super::read_target;
use super::reason::Reason;
use super::rule::Rule;
use super::token::{Token, tokens, write_value};

/// One option and its values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flag<'a> {
    pub(super) negated: bool,
    pub(super) name: &'a str,
    pub(super) values: &'a [Token<'a>],
}

impl<'a> Flag<'a> {
    /// Its only value; `None` if it has none or several.
    pub(super) fn only_value(&self) -> Option<&'a str> {
        match self.values {
            [value] => Some(value.text.as_ref()),
            _ => None,
        }
    }

    fn value(&self) -> Result<Negatable<&'a str>, Reason> {
        match self.values {
            [] => Err(Reason::NoValue(self.name.to_owned())),
            [value] => Ok(Negatable {
                negated: self.negated,
                value: value.text.as_ref(),
            }),
            [_, extra, ..] => Err(Reason::Unexpected(extra.text.to_string())),
        }
    }
}

/// A match or a target and its options.
#[derive(Debug, Default)]
pub(super) struct Group<'a> {
    pub(super) name: &'a str,
    pub(super) flags: Vec<Flag<'a>>,
}

impl Group<'_> {
    /// The options as text, quoted so that they read back the same.
    pub(super) fn options(&self) -> Box<str> {
        let mut text = String::new();
        for flag in &self.flags {
            let blank = if text.is_empty() { "" } else { " " };
            text.push_str(blank);
            text.push_str(if flag.negated { "! " } else { "" });
            text.push_str(flag.name);
            for value in flag.values {
                text.push(' ');
                // Writing to a String cannot fail.
                let _ = write_value(&mut text, &value.text);
            }
        }
        text.into_boxed_str()
    }
}

/// Reads a rule spec.
pub(super) fn read(spec: &str) -> Result<Rule, Reason> {
    let words = tokens(spec)?;
    let mut reading = Reading::default();
    let mut rest = words.as_slice();
    while !rest.is_empty() {
        let (flag, after) = next_flag(rest)?;
        reading.take(flag)?;
        rest = after;
    }
    Ok(reading.finish())
}

/// Options that have exactly one value, whatever it looks like; `--comment -x` is legal.
const TAKES_ONE: &[&str] = &["--comment", "--log-prefix", "--nflog-prefix", "--name"];

fn next_flag<'a>(words: &'a [Token<'a>]) -> Result<(Flag<'a>, &'a [Token<'a>]), Reason> {
    let (negated, words) = match words {
        [first, rest @ ..] if first.is_not() => (true, rest),
        _ => (false, words),
    };
    let (name, rest) = match words {
        [name, rest @ ..] if name.is_option() => (name.text.as_ref(), rest),
        [other, ..] => return Err(Reason::Unexpected(other.text.to_string())),
        [] => return Err(Reason::Unexpected("!".to_owned())),
    };
    let count = if TAKES_ONE.contains(&name) {
        rest.len().min(1)
    } else {
        rest.iter()
            .take_while(|word| !word.is_option() && !word.is_not())
            .count()
    };
    let (values, after) = rest.split_at_checked(count).unwrap_or((rest, &[]));
    Ok((
        Flag {
            negated,
            name,
            values,
        },
        after,
    ))
}

/// Where options go that are not about addresses, interfaces or protocol.
#[derive(Debug, Default, Clone, Copy)]
enum Current {
    /// Nothing was opened yet.
    #[default]
    Nothing,
    LastMatch,
    Target,
}

#[derive(Debug, Default)]
struct Reading<'a> {
    rule: Rule,
    matches: Vec<Group<'a>>,
    target: Group<'a>,
    current: Current,
}

impl<'a> Reading<'a> {
    fn take(&mut self, flag: Flag<'a>) -> Result<(), Reason> {
        match flag.name {
            "-s" | "--source" | "--src" => self.rule.source = network(flag)?,
            "-d" | "--destination" | "--dst" => self.rule.destination = network(flag)?,
            "-i" | "--in-interface" => self.rule.in_interface = interface(flag)?,
            "-o" | "--out-interface" => self.rule.out_interface = interface(flag)?,
            "-p" | "--protocol" | "--proto" => self.rule.protocol = protocol(flag)?,
            "-m" | "--match" => self.open(flag.value()?.value),
            "-j" | "--jump" | "-g" | "--goto" => {
                self.target.name = flag.value()?.value;
                // The flag itself is kept to tell a goto from a jump.
                self.target.flags.push(flag);
                self.current = Current::Target;
            }
            "-c" | "--set-counters" => {}
            _ => self.option(flag),
        }
        Ok(())
    }

    fn open(&mut self, name: &'a str) {
        self.matches.push(Group {
            name,
            flags: Vec::new(),
        });
        self.current = Current::LastMatch;
    }

    fn option(&mut self, flag: Flag<'a>) {
        let group = match self.current {
            _ if is_of_protocol(flag.name) => self.of_protocol(),
            Current::Target => Some(&mut self.target),
            Current::LastMatch => self.matches.last_mut(),
            Current::Nothing => None,
        };
        if let Some(group) = group {
            group.flags.push(flag);
            return;
        }
        self.matches.push(Group {
            name: implied_match(&self.rule, flag.name),
            flags: vec![flag],
        });
    }

    /// The match of the protocol, if it was opened by name.
    fn of_protocol(&mut self) -> Option<&mut Group<'a>> {
        self.matches
            .iter_mut()
            .rev()
            .find(|group| PROTOCOL_MATCHES.contains(&group.name))
    }

    fn finish(self) -> Rule {
        let mut rule = self.rule;
        rule.matches = self.matches.iter().map(read_match::read).collect();
        rule.matches.sort_by(by_name);
        rule.target = read_target::read(&self.target);
        rule
    }
}

/// Matches that `-p` loads by itself.
const PROTOCOL_MATCHES: &[&str] = &[
    "tcp",
    "udp",
    "sctp",
    "dccp",
    "udplite",
    "icmp",
    "icmp6",
    "icmpv6",
    "ipv6-icmp",
];

fn is_of_protocol(option: &str) -> bool {
    matches!(
        option,
        "--dport"
            | "--destination-port"
            | "--sport"
            | "--source-port"
            | "--syn"
            | "--tcp-flags"
            | "--tcp-option"
            | "--icmp-type"
            | "--icmpv6-type"
    )
}

/// The match of `-p`, or none at all for options of the packet itself such as `-f`.
fn implied_match(rule: &Rule, option: &str) -> &'static str {
    let named = rule.protocol.as_ref().map(|protocol| &*protocol.value);
    match named {
        Some(protocol) if option.starts_with("--") => PROTOCOL_MATCHES
            .iter()
            .find(|name| **name == protocol)
            .map_or("", |name| *name),
        _ => "",
    }
}

fn network(flag: Flag<'_>) -> Result<Option<Negatable<Network>>, Reason> {
    let Negatable { negated, value } = flag.value()?;
    let value: Network = value.parse()?;
    let is_void = value.is_all() && !negated;
    Ok((!is_void).then_some(Negatable { negated, value }))
}

fn interface(flag: Flag<'_>) -> Result<Option<Negatable<Box<str>>>, Reason> {
    let Negatable { negated, value } = flag.value()?;
    let is_void = value == "+" && !negated;
    let value = Box::from(value);
    Ok((!is_void).then_some(Negatable { negated, value }))
}

fn protocol(flag: Flag<'_>) -> Result<Option<Negatable<Cow<'static, str>>>, Reason> {
    let Negatable { negated, value } = flag.value()?;
    let value = value.to_ascii_lowercase();
    let value = match value.as_str() {
        "all" | "0" => return Ok(None),
        "tcp" | "6" => "tcp",
        "udp" | "17" => "udp",
        "sctp" | "132" => "sctp",
        "icmp" | "1" => "icmp",
        "ipv6-icmp" | "icmpv6" | "58" => "ipv6-icmp",
        "gre" | "47" => "gre",
        "esp" | "50" => "esp",
        "ah" | "51" => "ah",
        "dccp" | "33" => "dccp",
        "udplite" | "136" => "udplite",
        _ => {
            let value = Cow::Owned(value);
            return Ok(Some(Negatable { negated, value }));
        }
    };
    let value = Cow::Borrowed(value);
    Ok(Some(Negatable { negated, value }))
}
