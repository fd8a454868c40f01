//! Sets of names that libxtables prints in an order of its own.
//!
//! Apart because states and address types are written in any order but must compare as sets.

use std::fmt;

/// A subset of a fixed list of names, at most sixteen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Bitset(u16);

impl Bitset {
    /// Reads a list with commas; `None` if it has a name that is not in `all`.
    fn read(text: &str, all: &[&str]) -> Option<Self> {
        let mut bits = 0;
        for name in text.split(',') {
            bits |= 1 << all.iter().position(|known| *known == name)?;
        }
        Some(Self(bits))
    }

    fn contains(self, name: &str, all: &[&str]) -> bool {
        Self::read(name, all).is_some_and(|one| self.0 & one.0 != 0)
    }

    fn write(self, f: &mut fmt::Formatter<'_>, all: &[&str]) -> fmt::Result {
        let mut comma = "";
        for (bit, name) in all.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{comma}{name}")?;
                comma = ",";
            }
        }
        Ok(())
    }
}

/// The states of `--ctstate`, in the order in which they are printed.
const STATES: &[&str] = &[
    "INVALID",
    "NEW",
    "RELATED",
    "ESTABLISHED",
    "UNTRACKED",
    "SNAT",
    "DNAT",
];

/// What `--ctstate` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct States(Bitset);

impl States {
    pub(super) fn read(text: &str) -> Option<Self> {
        Bitset::read(text, STATES).map(Self)
    }

    /// Whether the state is among them; `name` as in rules, `DNAT` for example.
    pub fn contains(self, name: &str) -> bool {
        self.0.contains(name, STATES)
    }
}

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, STATES)
    }
}

/// The types of `--dst-type`, in the order of `rtnetlink.h`, which is that of printing.
const TYPES: &[&str] = &[
    "UNSPEC",
    "UNICAST",
    "LOCAL",
    "BROADCAST",
    "ANYCAST",
    "MULTICAST",
    "BLACKHOLE",
    "UNREACHABLE",
    "PROHIBIT",
    "THROW",
    "NAT",
    "XRESOLVE",
];

/// What `--src-type` and `--dst-type` ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressTypes(Bitset);

impl AddressTypes {
    pub(super) fn read(text: &str) -> Option<Self> {
        Bitset::read(text, TYPES).map(Self)
    }

    /// Whether `LOCAL` is the only one asked for, which is all that can be decided without the
    /// routing table.
    pub fn is_only_local(self) -> bool {
        Self::read("LOCAL") == Some(self)
    }
}

impl fmt::Display for AddressTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, TYPES)
    }
}
