//! What the daemon wants from iptables, and what a version of it can do.
//!
//! Apart from [`exec`](super::exec) so that a double can stand behind the same trait.

use std::fmt;
use std::time::Duration;

use crate::rules::{Backend, Payload, Table};

use super::{ForeignChange, NoCounter, RestoreError, RunError};

/// The rules of one IP family in the kernel, and the counters that they name.
///
/// Commands of one family never overlap: their owner awaits one before it starts the next.
#[expect(
    async_fn_in_trait,
    reason = "callers live on one single-threaded runtime, so no future has to be Send"
)]
pub trait Iptables {
    /// Applies a payload without flushing what it does not name. Each table of it is applied
    /// whole or not at all; of two tables the first can be in the kernel when the second failed.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`]: its variants are what the caller can do next.
    async fn restore(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError>;

    /// The same with a shorter deadline than usual, if the programs have one.
    ///
    /// # Errors
    ///
    /// As [`Iptables::restore`].
    async fn restore_within(
        &self,
        payload: &mut dyn Payload,
        deadline: Duration,
    ) -> Result<Restored, RestoreError> {
        // A double comes to its end by itself.
        let _ = deadline;
        self.restore(payload).await
    }

    /// What the kernel holds in `table`, as `iptables-save` prints it, counters and comments aside,
    /// line by line: the rules of a large cluster are tens of megabytes. An error that is not
    /// [passing](RunError::is_passing) can last as long as somebody else's rules are there; lines
    /// that came before it are not the whole table.
    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError>;

    /// The same in one piece.
    async fn saved(&self, table: Table) -> Result<String, RunError> {
        let mut text = String::new();
        self.save(table, &mut |line| text.extend([line, "\n"]))
            .await?;
        Ok(text)
    }

    /// The rules of some chains of `table`, in the order given. An error means that the program
    /// gave no answer, as while another program holds the lock.
    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError>;

    /// Whether `chain` of `table` has this rule, spelled as behind `-A CHAIN`. Many a table that
    /// cannot be printed can be asked so.
    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError>;

    /// Makes the packet counter `name` unless it is there. After that rules may name it with
    /// `-m nfacct`, until somebody deletes it; while one of them does, nobody can.
    async fn make_counter(&self, name: &str) -> Result<(), NoCounter>;

    /// Waits until another program changes the tables; for ever, if that is not watched. Cancel
    /// safe: a change stays until it is returned.
    async fn changed(&self) -> ForeignChange {
        std::future::pending().await
    }

    /// A number that stays the same for as long as no program changes any rule, where there is
    /// one. It may change although no rule did.
    fn generation(&self) -> Option<u32> {
        None
    }

    /// Which changes [`changed`](Iptables::changed) returns.
    fn watched(&self) -> Watched {
        Watched::No
    }
}

/// How changes by other programs are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// Not at all.
    No,
    /// By the sizes of tables. A change that leaves them as they were stays unnoticed, as does one
    /// that falls between a restore of ours and the reading after it.
    BySize,
    /// The kernel reports each.
    ByEvents,
}

/// The rules of some chains, as `-S` prints them: `-N` or `-P` for the chain, then `-A` for each
/// rule.
#[derive(Debug)]
pub enum ListedChains {
    /// All of them.
    Whole(String),
    /// The program says that one of the chains does not exist.
    Missing,
    /// The program met a rule that it cannot print, and ended.
    Cut {
        /// The lines before that rule.
        printed: String,
        /// The chain that has the rule. Chains after it were not printed.
        chain: String,
        /// The program's words.
        cause: RunError,
    },
}

/// What is known of a restore that succeeded. Any value is legal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// How much text the program was given.
    pub payload_bytes: u64,
    /// How long the program was seen waiting for the xtables lock. A lower bound: zero on nft,
    /// which takes no lock, and where the kernel does not let us look.
    pub lock_wait: Duration,
    /// What the program had to say although it succeeded, for the log; mostly empty.
    pub stderr: String,
}

/// The first line of `iptables --version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// Major, minor and patch number; missing ones are zero. They compare as versions do.
    pub number: (u16, u16, u16),
    /// Versions before 1.8 do not say; they are legacy.
    pub backend: Backend,
}

impl Version {
    /// Reads `iptables v1.8.9 (nf_tables)`. `None` if there is no version in the text.
    pub fn parse(text: &str) -> Option<Self> {
        let (_, after) = text.split_once(" v")?;
        let digits = after
            .split(|c: char| !c.is_ascii_digit() && c != '.')
            .next()?;
        let mut parts = digits.split('.').map(str::parse::<u16>);
        let major = parts.next()?.ok()?;
        let mut next = || parts.next().and_then(Result::ok).unwrap_or(0);
        let number = (major, next(), next());
        let backend = if after.contains("(nf_tables)") {
            Backend::Nft
        } else {
            Backend::Legacy
        };
        Some(Self { number, backend })
    }

    /// What this version understands.
    ///
    /// Upstream: `pkg/util/iptables/iptables.go`, `MinCheckVersion` and its neighbours (v1.36)
    pub fn features(self) -> Features {
        Features {
            random_fully: self.number >= (1, 6, 2),
            wait_seconds: self.number >= (1, 4, 22),
            restore_wait_seconds: self.number >= (1, 6, 2),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.number;
        write!(f, "{major}.{minor}.{patch} ({})", self.backend)
    }
}

/// What a version of iptables understands. Any value is legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// `MASQUERADE --random-fully`.
    pub random_fully: bool,
    /// `iptables -w SECONDS`.
    pub wait_seconds: bool,
    /// `iptables-restore -w SECONDS`.
    pub restore_wait_seconds: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn version(text: &str, expected: &str) {
        let shown = Version::parse(text).map(|version| version.to_string());
        assert_eq!(shown.as_deref().unwrap_or("none"), expected, "{text}");
    }

    #[test]
    fn versions_are_read() {
        version("iptables v1.8.9 (nf_tables)\n", "1.8.9 (nft)");
        version("ip6tables v1.8.11 (legacy)\n", "1.8.11 (legacy)");
        version("iptables v1.6.1", "1.6.1 (legacy)");
        version("iptables v1.10", "1.10.0 (legacy)");
        version("iptables-restore v1.4.19.1: oops", "1.4.19 (legacy)");
        version("bash: iptables: command not found", "none");
        version("iptables vee", "none");
        version("", "none");
    }

    #[test]
    fn features_come_with_versions() {
        let features = |text: &str| {
            let features = Version::parse(text).unwrap().features();
            (
                features.random_fully,
                features.wait_seconds,
                features.restore_wait_seconds,
            )
        };
        assert_eq!(features("iptables v1.4.21"), (false, false, false));
        assert_eq!(features("iptables v1.4.22"), (false, true, false));
        assert_eq!(features("iptables v1.6.2"), (true, true, true));
        assert_eq!(features("iptables v1.10.0"), (true, true, true));
    }
}
