//! Where netfilter runs rules, and in which order.
//!
//! Apart because it is the one thing about the way of packets that no rule says. `raw`, `security`
//! and nat `INPUT` are left out: the first two are not read, and the last changes sources only.

use super::table::Table;

/// A place where rules are run, in an order in which no packet goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hook {
    ManglePrerouting,
    NatPrerouting,
    MangleForward,
    FilterForward,
    MangleOutput,
    NatOutput,
    FilterOutput,
    ManglePostrouting,
    NatPostrouting,
    /// What the node sends to itself comes in again, and is not translated twice.
    MangleReturn,
    MangleInput,
    FilterInput,
}

impl Hook {
    pub(super) const fn chain(self) -> (Table, &'static str) {
        match self {
            Self::ManglePrerouting | Self::MangleReturn => (Table::Mangle, "PREROUTING"),
            Self::NatPrerouting => (Table::Nat, "PREROUTING"),
            Self::MangleForward => (Table::Mangle, "FORWARD"),
            Self::FilterForward => (Table::Filter, "FORWARD"),
            Self::MangleOutput => (Table::Mangle, "OUTPUT"),
            Self::NatOutput => (Table::Nat, "OUTPUT"),
            Self::FilterOutput => (Table::Filter, "OUTPUT"),
            Self::ManglePostrouting => (Table::Mangle, "POSTROUTING"),
            Self::NatPostrouting => (Table::Nat, "POSTROUTING"),
            Self::MangleInput => (Table::Mangle, "INPUT"),
            Self::FilterInput => (Table::Filter, "INPUT"),
        }
    }

    /// Where the packet goes next; `to_node`: as routed after translation.
    pub(super) const fn next(self, from_node: bool, to_node: bool) -> Option<Self> {
        Some(match self {
            Self::ManglePrerouting => Self::NatPrerouting,
            Self::NatPrerouting if to_node => Self::MangleInput,
            Self::NatPrerouting => Self::MangleForward,
            Self::MangleForward => Self::FilterForward,
            Self::MangleOutput => Self::NatOutput,
            Self::NatOutput => Self::FilterOutput,
            Self::FilterForward | Self::FilterOutput => Self::ManglePostrouting,
            Self::ManglePostrouting => Self::NatPostrouting,
            // What the node sends to itself leaves through `lo` and comes in again.
            Self::NatPostrouting if from_node && to_node => Self::MangleReturn,
            Self::MangleReturn => Self::MangleInput,
            Self::MangleInput => Self::FilterInput,
            Self::FilterInput | Self::NatPostrouting => return None,
        })
    }

    pub(super) const fn has_outgoing(self) -> bool {
        !matches!(
            self,
            Self::ManglePrerouting
                | Self::NatPrerouting
                | Self::MangleReturn
                | Self::MangleInput
                | Self::FilterInput
        )
    }

    pub(super) const fn has_incoming(self) -> bool {
        !matches!(
            self,
            Self::MangleOutput
                | Self::NatOutput
                | Self::FilterOutput
                | Self::ManglePostrouting
                | Self::NatPostrouting
        )
    }
}
