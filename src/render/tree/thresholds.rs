//! Form of a dispatch chain, flat or a tree, by its number of rules.

use crate::rules::Table;
use crate::ruleset::{DispatchChain, DispatchForm};

/// Numbers of rules above which a dispatch chain is a tree: `--service-dispatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeThresholds {
    /// Threshold in the nat table; `None`: no tree.
    pub nat: Option<u64>,
    /// Threshold in the filter table; `None`: no tree. It is higher than in nat: a kube-proxy that
    /// is installed again takes tree chains for unknown Service chains and deletes them, but in nat
    /// only, so that those of the filter table stay until an administrator removes them.
    pub filter: Option<u64>,
}

impl TreeThresholds {
    /// All rules are in the dispatch chains themselves, as upstream.
    pub const FLAT: Self = Self {
        nat: None,
        filter: None,
    };

    /// In nat a tree for more rules than one leaf has. In filter as [`Self::AUTO`], for the reason
    /// given at [`Self::filter`].
    pub const TREE: Self = Self {
        nat: Some(12),
        filter: Some(1_000),
    };

    /// A tree where it saves a noticeable part of a `connect()`, which takes 10 us in a tree. On
    /// nft a packet takes 10 ns for a rule, and so 3 us for 300 rules of a flat chain.
    ///
    /// Measured: benches/datapath, 1,000 and 10,000 Services
    pub const AUTO: Self = Self {
        nat: Some(300),
        filter: Some(1_000),
    };

    /// Returns the form of a dispatch chain with this number of rules. One that is a tree already
    /// stays so while it has more than half of the threshold.
    pub(crate) fn form(
        self,
        chain: DispatchChain,
        rule_count: u64,
        before: DispatchForm,
    ) -> DispatchForm {
        let threshold = match chain.table() {
            Table::Nat => self.nat,
            Table::Filter | Table::Mangle => self.filter,
        };
        let lowest = match before {
            DispatchForm::Flat => threshold,
            DispatchForm::Tree => threshold.map(|threshold| threshold / 2),
        };
        if lowest.is_some_and(|lowest| rule_count > lowest) {
            DispatchForm::Tree
        } else {
            DispatchForm::Flat
        }
    }
}

/// As upstream, for callers without a configuration; `--service-dispatch` has another default.
impl Default for TreeThresholds {
    fn default() -> Self {
        Self::FLAT
    }
}
