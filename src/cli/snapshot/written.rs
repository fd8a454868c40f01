//! Rules that a daemon wrote, as the origin of a snapshot.

use std::fmt;

use jiff::Timestamp;

use crate::rules::Backend;
use crate::status::FamilyStatus;

/// Rules that a daemon wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct WrittenRules {
    /// Name of the node.
    pub(super) node: String,
    /// Version of the daemon.
    pub(super) version: String,
    /// Backend that it wrote them to.
    pub(super) backend: Backend,
    pub(super) verified: Verified,
}

/// Result of the last comparison of all rules in the kernel with those that the daemon wrote, the
/// worst of both families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Verified {
    /// The kernel had all of them this many seconds ago.
    Clean(i64),
    /// There was none yet.
    NotYet,
    /// Some were changed, and are repaired by now, or about to be.
    Changed,
}

impl Verified {
    pub(super) fn of<'f>(families: impl Iterator<Item = &'f FamilyStatus>, now: Timestamp) -> Self {
        let mut verdict = Self::Clean(0);
        for family in families {
            verdict = match (&family.verification, verdict) {
                (_, Self::Changed) => Self::Changed,
                (Some(last), _) if !last.is_clean => Self::Changed,
                (None, _) | (_, Self::NotYet) => Self::NotYet,
                (Some(last), Self::Clean(oldest)) => {
                    Self::Clean(oldest.max(now.duration_since(last.at).as_secs()))
                }
            };
        }
        verdict
    }
}

impl fmt::Display for WrittenRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            version,
            backend,
            verified,
        } = self;
        write!(f, "rules of {node} ({backend}), written by deltaproxy")?;
        if let Some(version) = version
            .split(',')
            .next()
            .filter(|version| !version.is_empty())
        {
            write!(f, " {version}")?;
        }
        match verified {
            Verified::Clean(seconds) => write!(f, ", verified {seconds} s ago"),
            Verified::NotYet => f.write_str(", not verified yet"),
            Verified::Changed => f.write_str(", last verification found changed rules"),
        }
    }
}
