//! What a payload amounts to, in numbers.
//!
//! Apart because the core counts and the shell reports.

use std::ops::AddAssign;

use crate::rules::Table;

/// Rules by table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// In the filter table.
    pub filter: u64,
    /// In the nat table.
    pub nat: u64,
}

impl RuleCounts {
    /// Both tables together.
    pub const fn total(self) -> u64 {
        self.filter + self.nat
    }

    /// Adds rules to one table.
    pub(super) fn add(&mut self, table: Table, rules: u64) {
        match table {
            Table::Filter => self.filter += rules,
            Table::Nat => self.nat += rules,
            Table::Mangle => {}
        }
    }
}

impl AddAssign for RuleCounts {
    fn add_assign(&mut self, other: Self) {
        self.filter += other.filter;
        self.nat += other.nat;
    }
}

/// The size of one payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PayloadStats {
    /// Rules written: deletions do not count.
    pub rules: RuleCounts,
    /// Chains written or deleted.
    pub chains: u64,
    /// Bytes.
    pub bytes: u64,
}
