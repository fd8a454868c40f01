//! Record of one chain in the kernel.

use crate::rules::{RulesDigest, RulesHasher, rules_of_lines};
use crate::ruleset::ServiceChain;

/// Chain in the kernel: the rules that were last written or adopted, and whether a comparison has
/// found others since. `chain` is its name, unless the record is found by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordedChain<C = ()> {
    pub(crate) chain: C,
    digest: RulesDigest,
    is_damaged: bool,
    pub(crate) rule_count: u32,
}

impl RecordedChain {
    /// Returns a chain that holds these rules: lines with `-A CHAIN`.
    pub(crate) fn of_lines(lines: &str) -> Self {
        let mut hasher = RulesHasher::default();
        let rules = rules_of_lines(lines).inspect(|rule| {
            hasher.add(rule);
        });
        Self {
            chain: (),
            // Counted before the digest is complete.
            rule_count: u32::try_from(rules.count()).unwrap_or(u32::MAX),
            digest: hasher.finish(),
            is_damaged: false,
        }
    }

    /// Returns a chain whose rules are not known.
    pub(crate) const fn unknown() -> Self {
        Self {
            chain: (),
            digest: RulesDigest::UNKNOWN,
            is_damaged: true,
            rule_count: 0,
        }
    }

    /// Returns the record for a Service chain.
    pub(crate) const fn named(self, chain: ServiceChain) -> RecordedChain<ServiceChain> {
        RecordedChain {
            chain,
            digest: self.digest,
            is_damaged: self.is_damaged,
            rule_count: self.rule_count,
        }
    }
}

impl<C> RecordedChain<C> {
    /// Returns the digest of the rules that were last written or adopted.
    pub(crate) const fn digest(&self) -> RulesDigest {
        self.digest
    }

    /// Reports whether the kernel holds other rules, or may.
    pub(crate) const fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Reports whether the kernel holds the rules with this digest.
    pub(crate) fn holds(&self, desired: RulesDigest) -> bool {
        !self.is_damaged && self.digest.is_same(desired)
    }

    /// Compares the record with the rules that were read; `None`: they were not read. Returns
    /// whether they differ.
    pub(crate) fn observe(&mut self, read: Option<RulesDigest>) -> bool {
        let Some(read) = read else {
            return false;
        };
        self.is_damaged = !read.is_same(self.digest);
        self.is_damaged
    }

    /// Marks the chain as damaged, so that it is written again, or takes the mark back.
    pub(crate) const fn set_damaged(&mut self, is_damaged: bool) {
        self.is_damaged = is_damaged;
    }
}
