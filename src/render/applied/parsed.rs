//! Digests of rules in parsed form, by which live rules are compared with rendered ones.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::rules::{Rule, Table};
use crate::ruleset::{jumps_for_one_destination, tree_of};

/// Digest of rules in parsed form, so that their spelling does not matter.
///
/// Never compared with a `TextDigest`, the digest of rendered text: to compare rendered rules with
/// live ones, their text is parsed and digested again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ParsedDigest(u64);

impl ParsedHasher {
    pub(super) fn add(&mut self, rule: &str) {
        match rule.parse::<Rule>() {
            Ok(rule) => rule.hash(&mut self.hasher),
            Err(_) => self.has_unparsed = true,
        }
    }

    pub(super) fn finish(self) -> Option<ParsedDigest> {
        (!self.has_unparsed).then(|| ParsedDigest(self.hasher.finish()))
    }
}

/// Returns the digest of rules; `None` if one of them cannot be parsed.
pub(super) fn parsed_digest<'r>(rules: impl IntoIterator<Item = &'r str>) -> Option<ParsedDigest> {
    let mut hasher = ParsedHasher::default();
    for rule in rules {
        hasher.add(rule);
    }
    hasher.finish()
}

/// Returns a dispatch rule without blanks and newline around it, as the parser requires.
pub(super) fn spec(rule: &[u8]) -> &str {
    str::from_utf8(rule).unwrap_or_default().trim()
}

/// Digest and number of the rules of a tree chain or of a root, live or rendered.
#[derive(Debug, Default)]
pub(super) struct ParsedChain {
    hasher: ParsedHasher,
    /// Number of rules, without jumps to other tree chains.
    pub(super) rule_count: u64,
    /// Holds jumps to other tree chains.
    pub(super) has_jumps: bool,
    /// Holds a jump for several destinations, which only an inner chain of a tree has.
    pub(super) is_inner: bool,
}

impl ParsedChain {
    /// Reads the rules of a chain from what `-S CHAIN` printed, or from rendered lines.
    pub(super) fn of_lines(table: Table, lines: &str) -> Self {
        let mut chain = Self::default();
        let rules = lines.lines().filter_map(|line| line.strip_prefix("-A "));
        for (_, rule) in rules.filter_map(|rule| rule.split_once(' ')) {
            chain.add(table, rule);
        }
        chain
    }

    /// Reports whether both chains hold the same rules, in any spelling.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let (own, other) = (self.hasher.clone().finish(), other.hasher.clone().finish());
        own.is_some() && own == other
    }

    pub(super) fn add(&mut self, table: Table, rule: &str) {
        self.hasher.add(rule);
        let target = rule.rsplit_once(" -j ").map_or("", |(_, target)| target);
        if tree_of(table, target).is_some() {
            self.has_jumps = true;
            self.is_inner |= !jumps_for_one_destination(rule);
        } else {
            self.rule_count += 1;
        }
    }
}

/// Hasher of the rules of one chain, rule by rule.
#[derive(Debug, Default, Clone)]
pub(super) struct ParsedHasher {
    hasher: DefaultHasher,
    has_unparsed: bool,
}
