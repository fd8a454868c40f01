//! The tables of netfilter that matter to a proxy.
//!
//! Apart because both the writing and the reading side name them.

use std::fmt;

/// Chain of the mangle table in which it is tried out whether rules can name a counter. It exists
/// for a moment only, unless the process is killed in that moment.
pub const COUNTER_TEST_CHAIN: &str = "DELTAPROXY-NFACCT-TEST";

/// A table; payloads hold `filter` first, then `nat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Rejects, drops and forwarding.
    Filter,
    /// Destination and source translation.
    Nat,
    /// Only ever holds canaries of ours.
    Mangle,
}

impl Table {
    /// All of them, in the order in which they are saved.
    pub const ALL: [Self; 3] = [Self::Filter, Self::Nat, Self::Mangle];

    /// The chains that the kernel itself runs; they exist without being declared.
    pub const fn built_in_chains(self) -> &'static [&'static str] {
        match self {
            Self::Filter => &["INPUT", "FORWARD", "OUTPUT"],
            Self::Nat => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
            Self::Mangle => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
        }
    }

    /// The name after `-t` and after `*`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
            Self::Mangle => "mangle",
        }
    }

    /// The table of that name; `None` for `raw`, `security` and unknown ones.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.as_str() == name)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
