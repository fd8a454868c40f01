//! How programs end, and why they give no answer.
//!
//! Apart because queries and restores end alike, and only restores have more to tell.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The exit status with which iptables reports a resource problem, the held lock among them.
pub(super) const RESOURCE_PROBLEM: i32 = 4;

/// Why a program gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It did not start; for a missing program the family counts as unsupported.
    #[error("cannot start `{program}`{}", install_hint(source))]
    Spawn {
        /// The name or path that was tried.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It started and did not succeed.
    #[error("`{program}` {ending}{}", said(stderr))]
    Failed {
        /// The name or path that was run.
        program: String,
        /// How it ended.
        ending: Ending,
        /// The end of what it printed on stderr.
        stderr: String,
    },
    /// A third-party rule that the program cannot print: the rules are there, and what they are
    /// remains unknown.
    #[error("`{program}` cannot print all rules: {said}")]
    Unprintable {
        /// The name or path that was run.
        program: String,
        /// Its words.
        said: String,
    },
}

impl RunError {
    /// Whether it may be gone a moment later: the lock is held, or a program is being replaced.
    /// Anything else may last as long as what is in the kernel does.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Spawn { .. } => true,
            Self::Failed { ending, .. } => matches!(ending, Ending::Exited(RESOURCE_PROBLEM)),
            Self::Unprintable { .. } => false,
        }
    }

    /// This error, or [`Unprintable`](Self::Unprintable) if the program's words say so.
    pub(super) fn explained(self) -> Self {
        match self {
            Self::Failed {
                program,
                ending: ending @ Ending::Exited(_),
                stderr,
            } => match unprintable(&stderr) {
                Some(said) => Self::Unprintable { program, said },
                None => Self::Failed {
                    program,
                    ending,
                    stderr,
                },
            },
            other => other,
        }
    }
}

/// The words by which a program says that it met a rule that it cannot print; `None` if it failed
/// for another reason.
///
/// - nft, a chain with expressions that only `nft` knows: `chain `X' in table `nat' is
///   incompatible`; 1.8.7 to 1.8.9 have the same words for a chain that is not there.
/// - nft since 1.8.9, an expression that it cannot translate, or a match without its extension:
///   `Error: match extension not found`, then `Parsing nftables rule failed`, status 3.
/// - legacy, a match or target without its extension: `Can't find library for match `dscp'`,
///   status 1.
pub(super) fn unprintable(stderr: &str) -> Option<String> {
    let find = |words: &str| stderr.lines().find(|line| line.contains(words));
    if find("Parsing nftables rule failed").is_some() {
        let cause = stderr.lines().find(|line| line.starts_with("Error: "));
        return Some(cause.unwrap_or("Parsing nftables rule failed").to_owned());
    }
    // One base chain too many is no reason to fail: nft names it in a comment and prints the rest.
    let said = find(" is incompatible").or_else(|| find("Can't find library for "))?;
    Some(said.trim_start_matches("# ").to_owned())
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By a signal that was not ours.
    Signaled(i32),
    /// By us, because it had not ended after this long.
    TimedOut(Duration),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Signaled(signal) => write!(f, "was killed by signal {signal}"),
            Self::TimedOut(after) => write!(f, "did not end within {after:?} and was killed"),
        }
    }
}

impl Ending {
    pub(super) fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signaled(signal.unwrap_or_default()),
        }
    }
}

/// The words `: TEXT`, or nothing for an empty text, and a way out if the text tells of one.
pub(super) fn said(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text if text.contains("Permission denied") || text.contains("not permitted") => {
            format!(
                ": {text}\nhint: run as root, or in a container with CAP_NET_ADMIN and CAP_NET_RAW"
            )
        }
        // Whatever it printed, the log stays text.
        text => format!(
            ": {}",
            text.replace(|c: char| c.is_control() && c != '\n', " ")
        ),
    }
}

/// A line telling how to get a missing program.
pub(super) fn install_hint(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::NotFound {
        "\nhint: install iptables, or put the folder that holds it in PATH"
    } else {
        ""
    }
}
