//! Several ports at once, as `-m multiport` has them.
//!
//! Apart from [`Match`](super::Match) because what a list is compared with depends on its option.

use std::fmt;

use super::condition::PortRange;
use super::spec::Flag;

/// A list of ports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MultiPort {
    /// Which port of the packet is meant.
    pub side: Side,
    /// Whether every port but these matches.
    pub negated: bool,
    /// In the order in which they were written.
    pub ranges: Vec<PortRange>,
}

/// Which port of a packet is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// `--sports`.
    Source,
    /// `--dports`.
    Destination,
    /// `--ports`: one of the two.
    Either,
}

impl MultiPort {
    pub(super) fn read(flag: Flag<'_>) -> Option<Self> {
        let side = match flag.name {
            "--sports" | "--source-ports" => Side::Source,
            "--dports" | "--destination-ports" => Side::Destination,
            "--ports" => Side::Either,
            _ => return None,
        };
        let ranges = flag.only_value()?.split(',').map(PortRange::read);
        Some(Self {
            side,
            negated: flag.negated,
            ranges: ranges.collect::<Option<_>>()?,
        })
    }

    /// Whether it matches a packet to that port from any; `None` if that depends on the other.
    pub(super) fn matches(&self, destination: u16) -> Option<bool> {
        let is_in = self.ranges.iter().any(|range| range.contains(destination));
        match (self.side, is_in) {
            (Side::Destination, _) | (Side::Either, true) => Some(is_in != self.negated),
            (Side::Source, _) | (Side::Either, false) => None,
        }
    }
}

impl fmt::Display for MultiPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = match self.side {
            Side::Source => "--sports",
            Side::Destination => "--dports",
            Side::Either => "--ports",
        };
        let not = if self.negated { "! " } else { "" };
        let ranges: Vec<_> = self.ranges.iter().map(ToString::to_string).collect();
        write!(f, "{not}{option} {}", ranges.join(","))
    }
}
