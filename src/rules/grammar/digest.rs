//! Digests of rules in normal form: a rule as written and as the kernel prints it have one digest.
//!
//! Options that a proxy writes are digested word by word, which takes a fraction of the time of
//! parsing. A rule with any other option is parsed, printed in normal form, and digested then.

use std::hash::{BuildHasher as _, Hash};
use std::net::SocketAddr;

use foldhash::quality::FixedState;

use super::condition::{Network, PortRange};
use super::matches::{WHOLE_V4, WHOLE_V6};
use super::probability::Probability;
use super::rule::{Rule, protocol, without_counters};
use super::token::{Flag, Tokens, next_flag, tokens};

/// Digest of the rules of one chain, in their order. Different rules have, but for one chance in
/// 2^64, different digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RulesDigest(u64);

impl RulesDigest {
    /// Digest of rules that are not known, or of which one cannot be parsed.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// Returns the digest of lines with `-A CHAIN`; unknown if one of them cannot be parsed.
    pub(crate) fn of_lines(lines: &str) -> Self {
        let mut hasher = RulesHasher::default();
        for rule in rules_of_lines(lines) {
            hasher.add(rule);
        }
        hasher.finish()
    }

    pub(crate) fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }

    /// Reports whether these are the rules with the other digest: unknown ones never are.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.is_known() && self == other
    }
}

/// Returns the rules of lines with `-A CHAIN`, without that.
pub(crate) fn rules_of_lines(lines: &str) -> impl Iterator<Item = &str> {
    let rules = lines.lines().filter_map(|line| line.strip_prefix("-A "));
    rules.filter_map(|rule| Some(rule.split_once(' ')?.1))
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RulesHasher {
    sum: u64,
    has_unparsed: bool,
}

impl RulesHasher {
    /// Adds the next rule, without `-A CHAIN`. Returns the digest of a chain with this rule alone.
    pub(crate) fn add(&mut self, rule: &str) -> RulesDigest {
        let Some(digest) = rule_digest(rule) else {
            self.has_unparsed = true;
            return RulesDigest::UNKNOWN;
        };
        self.sum = HASH.hash_one((self.sum, digest));
        RulesDigest(HASH.hash_one((0_u64, digest)).max(1))
    }

    /// Returns the digest; unknown if a rule could not be parsed.
    pub(crate) fn finish(self) -> RulesDigest {
        if self.has_unparsed {
            RulesDigest::UNKNOWN
        } else {
            // Zero is that of unknown rules; one is as unlikely as any other digest.
            RulesDigest(self.sum.max(1))
        }
    }
}

/// Equal in every process, so that failures of tests can be repeated.
const HASH: FixedState = FixedState::with_seed(0);

/// Returns the digest of a rule; `None` if it cannot be parsed.
fn rule_digest(text: &str) -> Option<u64> {
    known(text).or_else(|| {
        let normal = text.parse::<Rule>().ok()?.to_string();
        // Printing leaves out defaults, so that the rest may be known.
        Some(known(&normal).unwrap_or_else(|| HASH.hash_one(&normal)))
    })
}

/// Returns the digest of a rule that has only options that [`RuleOptions::take`] knows.
fn known(text: &str) -> Option<u64> {
    let mut words = Tokens::new();
    tokens(without_counters(text), &mut words).ok()?;
    let mut options = RuleOptions::default();
    let mut rest = words.as_slice();
    while !rest.is_empty() {
        let (flag, after) = next_flag(rest).ok()?;
        options.take(flag)?;
        rest = after;
    }
    options.finish()
}

/// Options of one rule, digested so far. Their sum does not depend on their order.
#[derive(Default)]
struct RuleOptions<'a> {
    sum: u64,
    matches: Names<'a>,
    /// Names of the options, without `-m`.
    names: Names<'a>,
    /// Name after `-j` or `-g`; empty before these.
    target: &'a str,
}

impl<'a> RuleOptions<'a> {
    /// Adds one option; `None` if it is not known, can be written in several ways, or is there
    /// already, so that only one of the two counts.
    fn take(&mut self, flag: Flag<'a>) -> Option<()> {
        let Flag { negated, name, .. } = flag;
        match name {
            "-s" | "-d" => {
                let network: Network = flag.only_value()?.parse().ok()?;
                self.add(flag, (!network.is_all() || negated).then_some(network))
            }
            "-i" | "-o" => {
                let interface = flag.only_value()?;
                self.add(flag, (interface != "+" || negated).then_some(interface))
            }
            "-p" => self.add(flag, protocol(flag).ok()?.map(|protocol| protocol.value)),
            "-m" if !negated => {
                let name = flag.only_value()?;
                self.matches.insert(name)?;
                self.sum = self.sum.wrapping_add(HASH.hash_one(("-m", name)));
                Some(())
            }
            "-j" | "-g" if !negated => {
                self.target = flag.only_value()?;
                self.add(flag, Some(self.target))
            }
            "--to-destination" if self.target == "DNAT" && !negated => {
                let to: SocketAddr = flag.only_value()?.parse().ok()?;
                self.add(flag, Some(to))
            }
            _ if self.target.is_empty() => self.take_match_option(flag),
            _ => None,
        }
    }

    fn take_match_option(&mut self, flag: Flag<'a>) -> Option<()> {
        let value = || flag.only_value();
        match (self.matches.last()?, flag.name, flag.negated) {
            (_, "--dport" | "--sport", negated) => {
                let ports = PortRange::read(value()?)?.normal(negated);
                let ports = ports.filter(|ports| ports.negated == negated)?;
                self.add(flag, Some(ports.value))
            }
            ("comment", "--comment", false) | ("recent", "--name", false) => {
                self.add(flag, value())
            }
            ("addrtype", "--src-type" | "--dst-type", _) if value()? == "LOCAL" => {
                self.add(flag, value())
            }
            ("conntrack", "--ctstate", _) if value()? == "INVALID" => self.add(flag, value()),
            ("statistic", "--mode", false) if value()? == "random" => self.add(flag, value()),
            ("statistic", "--probability", _) if self.names.has("--mode") => {
                self.add(flag, Some(Probability::read(value()?)?))
            }
            ("recent", "--set" | "--rcheck" | "--update", false) if flag.values.is_empty() => {
                let name = "action";
                self.add(Flag { name, ..flag }, Some(flag.name))
            }
            ("recent", "--reap", false) if flag.values.is_empty() => self.add(flag, Some(())),
            ("recent", "--seconds", false) => {
                let seconds: u32 = value()?.parse().ok()?;
                self.add(flag, Some(seconds))
            }
            // Defaults that iptables adds when it prints the rule.
            ("recent", "--rsource", false) if flag.values.is_empty() => Some(()),
            ("recent", "--mask", false) if [WHOLE_V4, WHOLE_V6].contains(&value()?) => Some(()),
            _ => None,
        }
    }

    /// Adds an option with its value in normal form; `None` is always true, and left out.
    fn add(&mut self, flag: Flag<'a>, value: Option<impl Hash>) -> Option<()> {
        self.names.insert(flag.name)?;
        if let Some(value) = value {
            let part = HASH.hash_one((flag.name, flag.negated, value));
            self.sum = self.sum.wrapping_add(part);
        }
        Some(())
    }

    /// Returns the digest; `None` if an option stands for others that may be written or not.
    fn finish(self) -> Option<u64> {
        let has_ports = self.names.has("--dport") || self.names.has("--sport");
        let protocols = ["tcp", "udp", "sctp"];
        let is_whole = (!has_ports || protocols.iter().any(|name| self.matches.has(name)))
            && self.matches.has("recent") == (self.names.has("--name") && self.names.has("action"))
            && self.matches.has("statistic") == self.names.has("--probability");
        is_whole.then_some(self.sum)
    }
}

/// Names of options or matches, each once.
#[derive(Default)]
struct Names<'a> {
    /// As many as the longest rule of a proxy has.
    names: [&'a str; 10],
    count: usize,
}

impl<'a> Names<'a> {
    /// Adds a name; `None` if it is there already, or there are too many.
    fn insert(&mut self, name: &'a str) -> Option<()> {
        if self.has(name) {
            return None;
        }
        *self.names.get_mut(self.count)? = name;
        self.count += 1;
        Some(())
    }

    fn has(&self, name: &str) -> bool {
        self.names
            .iter()
            .take(self.count)
            .any(|known| *known == name)
    }

    fn last(&self) -> Option<&'a str> {
        self.names.get(self.count.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
#[path = "../tests/digest.rs"]
mod tests;
