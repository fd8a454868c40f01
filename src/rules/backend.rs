//! The two programs that read the same language.
//!
//! Apart because they differ in what is cheap, and in one line of a full payload.

use std::fmt;

/// Which kernel interface an `iptables-restore` speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// `nf_tables`: sends what is named, validates what is reachable.
    Nft,
    /// `x_tables`: reads and writes whole tables.
    Legacy,
}

impl Backend {
    /// As programs and flags spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::Legacy => "legacy",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
