//! One chain, and the chains of one table with who jumps where.
//!
//! Apart from [`RuleSet`](super::RuleSet) because a table is the unit that changes as a whole.
//!
//! # Invariants
//!
//! - The built-in chains of a table are always there.
//! - The number of references of a chain is the number of rules of its table that lead to it.

use std::collections::BTreeMap;
use std::fmt;

use super::rule::Rule;
use super::table::Table;

/// What a built-in chain does with a packet that reaches its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Policy {
    /// The packet goes on.
    #[default]
    Accept,
    /// The packet vanishes.
    Drop,
}

impl Policy {
    pub(super) fn read(text: &str) -> Option<Self> {
        match text {
            "ACCEPT" => Some(Self::Accept),
            "DROP" => Some(Self::Drop),
            _ => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accept => "ACCEPT",
            Self::Drop => "DROP",
        })
    }
}

/// The rules of a chain, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Of a built-in chain; `None` for every other.
    pub policy: Option<Policy>,
    /// Tried from first to last.
    pub rules: Vec<Rule>,
}

/// The chains of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chains {
    pub(super) by_name: BTreeMap<Box<str>, Chain>,
    /// How many rules lead to a chain; chains with none are absent.
    pub(super) references: BTreeMap<Box<str>, usize>,
}

impl Chains {
    /// A table as the kernel makes it.
    pub(super) fn new(table: Table) -> Self {
        let built_in = || Chain {
            policy: Some(Policy::Accept),
            rules: Vec::new(),
        };
        let names = table.built_in_chains().iter();
        Self {
            by_name: names.map(|name| (Box::from(*name), built_in())).collect(),
            references: BTreeMap::new(),
        }
    }

    /// Whether nothing was ever done to it.
    pub(super) fn is_pristine(&self) -> bool {
        self.by_name
            .values()
            .all(|chain| chain.rules.is_empty() && chain.policy == Some(Policy::Accept))
    }

    pub(super) fn rule_count(&self) -> usize {
        self.by_name.values().map(|chain| chain.rules.len()).sum()
    }

    /// Adds to the references of a chain, or takes from them.
    pub(super) fn add_references(&mut self, chain: &str, change: isize) {
        let before = self.references.get(chain).copied().unwrap_or(0);
        match before.saturating_add_signed(change) {
            0 => drop(self.references.remove(chain)),
            after => drop(self.references.insert(chain.into(), after)),
        }
    }
}
