//! Rules in normal form: a rule as written and as the kernel prints it compare equal.
//!
//! # Invariants
//!
//! - Matches are sorted by name; matches of one name keep their order.
//! - Conditions that are always true, such as `-s 0.0.0.0/0`, `-p all` and `-i +`, are absent.
//! - The text of a rule parses to the same rule. Defaults with a different spelling per family
//!   (`--reject-with`, the mask of `recent`) are not printed, so that a rule need not know its
//!   family.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use smallvec::{SmallVec, smallvec};

use super::condition::{Negatable, Network};
use super::matches::Match;
use super::target::Target;
use super::token::{Extension, Flag, OptionGroup, Tokens, Word, next_flag, tokens, without_blanks};
use crate::rules::error::LineError;

/// Rule without the name of its chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rule {
    /// `-s`.
    pub source: Option<Negatable<Network>>,
    /// `-d`.
    pub destination: Option<Negatable<Network>>,
    /// `-i`; a final `+` matches any rest of the name.
    pub in_interface: Option<Negatable<Box<str>>>,
    /// `-o`; a final `+` matches any rest of the name.
    pub out_interface: Option<Negatable<Box<str>>>,
    /// `-p`, by name if iptables has a name for it.
    pub protocol: Option<Negatable<Cow<'static, str>>>,
    /// All `-m`, sorted by name.
    pub matches: Vec<Match>,
    /// `-j` or `-g`; `None`: the rule only counts packets.
    pub target: Option<Target>,
}

impl Rule {
    /// Returns the text of the first comment.
    pub fn comment(&self) -> Option<&str> {
        self.matches.iter().find_map(|one| match one {
            Match::Comment(text) => Some(text.as_ref()),
            _ => None,
        })
    }

    /// Returns a rule that could not be parsed and keeps its text.
    pub(crate) fn unparsed(spec: &str) -> Self {
        let (name, options) = (Box::default(), spec.trim().into());
        Self {
            target: Some(Target::Other(Extension { name, options })),
            ..Self::default()
        }
    }

    pub fn is_unparsed(&self) -> bool {
        matches!(&self.target, Some(Target::Other(extension)) if extension.name.is_empty())
    }

    /// Returns the chain that the rule jumps or goes to.
    pub fn target_chain(&self) -> Option<&str> {
        self.target.as_ref().and_then(Target::chain)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = RuleFormatter { f, blank: "" };
        writer.condition("-s", self.source.as_ref())?;
        writer.condition("-d", self.destination.as_ref())?;
        writer.interface("-i", self.in_interface.as_ref())?;
        writer.interface("-o", self.out_interface.as_ref())?;
        writer.condition("-p", self.protocol.as_ref())?;
        for one in &self.matches {
            writer.part(one)?;
        }
        match &self.target {
            Some(target) => writer.part(target),
            None => Ok(()),
        }
    }
}

/// Writes the parts of a rule with a blank between them.
struct RuleFormatter<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    blank: &'static str,
}

impl RuleFormatter<'_, '_> {
    fn part(&mut self, part: impl fmt::Display) -> fmt::Result {
        write!(self.f, "{}{part}", self.blank)?;
        self.blank = " ";
        Ok(())
    }

    fn interface(&mut self, option: &str, name: Option<&Negatable<Box<str>>>) -> fmt::Result {
        match name {
            Some(name) => {
                let word = Word(&name.value);
                self.part(format_args!("{}{option} {word}", name.prefix()))
            }
            None => Ok(()),
        }
    }

    fn condition<T: fmt::Display>(
        &mut self,
        option: &str,
        value: Option<&Negatable<T>>,
    ) -> fmt::Result {
        match value {
            Some(value) => self.part(format_args!("{}{option} {}", value.prefix(), value.value)),
            None => Ok(()),
        }
    }
}

impl FromStr for Rule {
    type Err = LineError;

    /// Parses the text after `-A CHAIN`; counters before it are skipped.
    fn from_str(text: &str) -> Result<Self, LineError> {
        let mut words = Tokens::new();
        tokens(without_counters(text), &mut words)?;
        let mut parser = RuleParser::default();
        let mut rest = words.as_slice();
        while !rest.is_empty() {
            let (flag, after) = next_flag(rest)?;
            parser.take(flag)?;
            rest = after;
        }
        Ok(parser.finish())
    }
}

/// Strips the `[packets:bytes]` at the beginning of a line of `iptables-save -c`.
pub(crate) fn without_counters(line: &str) -> &str {
    let line = without_blanks(line);
    line.strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or(line, |(_, rest)| without_blanks(rest))
}

/// Extension that gets the next option other than addresses, interfaces and protocol.
#[derive(Debug, Default, Clone, Copy)]
enum Current {
    /// No `-m` or `-j` precedes the option.
    #[default]
    Nothing,
    LastMatch,
    Target,
}

/// Parser of one rule.
///
/// An option belongs to the last `-m` or `-j` before it, except that `--dport` and similar options
/// belong to the protocol, which may be named later or not at all:
/// `-m tcp -p tcp -d 10.0.0.1 --dport 80`.
#[derive(Debug, Default)]
struct RuleParser<'a> {
    rule: Rule,
    matches: SmallVec<[OptionGroup<'a>; 4]>,
    target: OptionGroup<'a>,
    current: Current,
}

impl<'a> RuleParser<'a> {
    fn take(&mut self, flag: Flag<'a>) -> Result<(), LineError> {
        match flag.name {
            "-s" | "--source" | "--src" => self.rule.source = network(flag)?,
            "-d" | "--destination" | "--dst" => self.rule.destination = network(flag)?,
            "-i" | "--in-interface" => self.rule.in_interface = interface(flag)?,
            "-o" | "--out-interface" => self.rule.out_interface = interface(flag)?,
            "-p" | "--protocol" | "--proto" => self.rule.protocol = protocol(flag)?,
            "-m" | "--match" => self.open_match(flag.value()?.value),
            "-j" | "--jump" | "-g" | "--goto" => {
                self.target.name = flag.value()?.value;
                // The flag itself is kept because it is the difference of a goto and a jump.
                self.target.flags.push(flag);
                self.current = Current::Target;
            }
            "-c" | "--set-counters" => {}
            _ => self.add_option(flag),
        }
        Ok(())
    }

    fn open_match(&mut self, name: &'a str) {
        self.matches.push(OptionGroup {
            name,
            flags: SmallVec::new(),
        });
        self.current = Current::LastMatch;
    }

    fn add_option(&mut self, flag: Flag<'a>) {
        let group = match self.current {
            _ if is_protocol_option(flag.name) => self.protocol_match(),
            Current::Target => Some(&mut self.target),
            Current::LastMatch => self.matches.last_mut(),
            Current::Nothing => None,
        };
        if let Some(group) = group {
            group.flags.push(flag);
            return;
        }
        self.matches.push(OptionGroup {
            name: implied_match(&self.rule, flag.name),
            flags: smallvec![flag],
        });
    }

    /// Returns the match of the protocol; `None` if no `-m` named it yet.
    fn protocol_match(&mut self) -> Option<&mut OptionGroup<'a>> {
        self.matches
            .iter_mut()
            .rev()
            .find(|group| PROTOCOL_MATCHES.contains(&group.name))
    }

    fn finish(self) -> Rule {
        let mut rule = self.rule;
        rule.matches = self.matches.iter().map(Match::read).collect();
        rule.matches
            .sort_by(|left, right| left.name().cmp(right.name()));
        rule.target = Target::read(&self.target);
        rule
    }
}

/// Matches that `-p` loads without a `-m`.
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

fn is_protocol_option(option: &str) -> bool {
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

/// Returns the match that `-p` loads; empty for options of no match, such as `-f`.
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

fn network(flag: Flag<'_>) -> Result<Option<Negatable<Network>>, LineError> {
    let Negatable { negated, value } = flag.value()?;
    let value: Network = value.parse()?;
    let is_always_true = value.is_all() && !negated;
    Ok((!is_always_true).then_some(Negatable { negated, value }))
}

fn interface(flag: Flag<'_>) -> Result<Option<Negatable<Box<str>>>, LineError> {
    let Negatable { negated, value } = flag.value()?;
    let is_always_true = value == "+" && !negated;
    let value = Box::from(value);
    Ok((!is_always_true).then_some(Negatable { negated, value }))
}

/// Reads the name or number of a protocol; `None`: all.
pub(super) fn protocol(flag: Flag<'_>) -> Result<Option<Negatable<Cow<'static, str>>>, LineError> {
    let Negatable { negated, value } = flag.value()?;
    let value = if value.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(value.to_ascii_lowercase())
    } else {
        Cow::Borrowed(value)
    };
    let value = match &*value {
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
            let value = Cow::Owned(value.into_owned());
            return Ok(Some(Negatable { negated, value }));
        }
    };
    let value = Cow::Borrowed(value);
    Ok(Some(Negatable { negated, value }))
}

/// Reports whether an editor, a web page or a person has replaced parts of a rule after it was
/// saved: its meaning is not that of the rule in the kernel, although it can be parsed.
pub(in crate::rules) fn is_altered(spec: &str, rule: &Rule) -> bool {
    has_replaced_quotes(spec) || has_redacted_target(rule)
}

/// Reports whether a word begins with a quote that stands in place of `"`: a comment of one word
/// would be taken for another name.
fn has_replaced_quotes(spec: &str) -> bool {
    const REPLACED: [&str; 5] = ["\u{201c}", "\u{201d}", "\u{2018}", "\u{2019}", "&quot;"];
    // Rules without comments are in the majority, and have none of these characters.
    let has_entity = || spec.as_bytes().contains(&b'&') && spec.contains("&quot;");
    if spec.is_ascii() && !has_entity() || spec.contains('"') {
        return false;
    }
    let is_quoted = |word: &str| REPLACED.iter().any(|quote| word.starts_with(quote));
    spec.split(' ').any(is_quoted)
}

/// Reports whether the destination of DNAT has letters that no address has, such as `x.x.x.x`.
fn has_redacted_target(rule: &Rule) -> bool {
    let Some(Target::Other(target)) = &rule.target else {
        return false;
    };
    let to = target.options.strip_prefix("--to-destination ");
    let to = to.and_then(|options| options.split(' ').next());
    let is_of_address = |c: char| c.is_ascii_hexdigit() || ".:[]-/".contains(c);
    to.is_some_and(|to| !to.chars().all(is_of_address))
}
