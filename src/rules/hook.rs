//! Where netfilter runs rules, and in which order.
//!
//! Apart because it is the one thing about the way of packets that no rule says. `mangle`, `raw` and
//! nat `INPUT` are left out: nothing of ours is there.

use super::table::Table;

/// A place where rules are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    NatPrerouting,
    NatOutput,
    FilterInput,
    FilterForward,
    FilterOutput,
    NatPostrouting,
}

impl Hook {
    pub(super) const fn chain(self) -> (Table, &'static str) {
        match self {
            Self::NatPrerouting => (Table::Nat, "PREROUTING"),
            Self::NatOutput => (Table::Nat, "OUTPUT"),
            Self::FilterInput => (Table::Filter, "INPUT"),
            Self::FilterForward => (Table::Filter, "FORWARD"),
            Self::FilterOutput => (Table::Filter, "OUTPUT"),
            Self::NatPostrouting => (Table::Nat, "POSTROUTING"),
        }
    }

    /// Where the packet goes next; `to_node`: as routed after translation.
    pub(super) const fn next(self, from_node: bool, to_node: bool) -> Option<Self> {
        match (self, from_node, to_node) {
            (Self::NatPrerouting, _, false) => Some(Self::FilterForward),
            (Self::NatOutput, ..) => Some(Self::FilterOutput),
            (Self::FilterForward | Self::FilterOutput, ..) => Some(Self::NatPostrouting),
            // What the node sends to itself leaves through `lo` and comes in again.
            (Self::NatPrerouting, _, true) | (Self::NatPostrouting, true, true) => {
                Some(Self::FilterInput)
            }
            (Self::FilterInput | Self::NatPostrouting, ..) => None,
        }
    }

    pub(super) const fn has_incoming(self) -> bool {
        !matches!(
            self,
            Self::NatOutput | Self::FilterOutput | Self::NatPostrouting
        )
    }
}
