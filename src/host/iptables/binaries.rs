//! The iptables binaries of one IP family, and queries with them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::time::Duration;

use super::interface::RunError;
use super::process::{Finished, Lock, ProgramExit, Run};
use crate::net::IpFamily;
use crate::rules::Backend;

/// Deadline of everything but restores.
pub(super) const QUERY_DEADLINE: Duration = Duration::from_secs(60);

/// Options of `iptables` that make it wait for the xtables lock. Without them it fails at once if
/// the lock is held.
///
/// Upstream: `pkg/util/iptables/iptables.go`, `WaitSecondsValue` (v1.37)
pub(super) const WAIT_ARGS: [&str; 2] = ["-w", "5"];

/// Options of `iptables-restore`, with the same wait.
pub(super) const RESTORE_ARGS: [&str; 4] = ["-w", "5", "--noflush", "--counters"];

/// First line of `iptables --version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// Major, minor and patch number; missing ones are zero. Tuples compare as versions do.
    pub number: (u16, u16, u16),
    /// Backend. Versions before 1.8 do not print it; they are legacy.
    pub backend: Backend,
}

impl Version {
    /// Parses `iptables v1.8.9 (nf_tables)`. Returns `None` if the text contains no version.
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
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.number;
        write!(f, "{major}.{minor}.{patch} ({})", self.backend)
    }
}

/// The iptables binaries of one IP family. [`discover`](Self::discover) returns only binaries that
/// start and are not too old.
#[derive(Debug, Clone)]
pub struct Binaries {
    pub family: IpFamily,
    /// Name or path of `iptables`.
    pub iptables: OsString,
    /// Name or path of `iptables-save`.
    pub save: OsString,
    /// Name or path of `iptables-restore`.
    pub restore: OsString,
    pub version: Version,
}

impl Binaries {
    /// Returns the plain names and a usual version, without looking for the binaries: for runs that
    /// only print.
    pub fn assumed(family: IpFamily) -> Self {
        let stem = family.iptables();
        Self {
            family,
            iptables: stem.into(),
            save: format!("{stem}-save").into(),
            restore: format!("{stem}-restore").into(),
            version: Version {
                number: (1, 8, 0),
                backend: Backend::Legacy,
            },
        }
    }

    /// Checks that the kernel supports this family, by listing one chain of the nat table.
    ///
    /// Upstream: `pkg/util/iptables/iptables.go`, `Present` (v1.37)
    pub async fn probe(&self) -> Result<(), RunError> {
        let mut args = WAIT_ARGS.to_vec();
        args.extend(["-S", "POSTROUTING", "-t", "nat"]);
        match query(&self.iptables, &args).await {
            // A rule that cannot be printed means that the table exists.
            Err(error) => match error.classified() {
                RunError::Unprintable { .. } => Ok(()),
                other => Err(other),
            },
            Ok(_) => Ok(()),
        }
    }

    /// Returns all tables of the kernel, as the save program prints them.
    pub async fn save_all(&self) -> Result<String, RunError> {
        let mut all = String::new();
        let mut add = |line: &str| {
            all.push_str(line);
            all.push('\n');
        };
        self.save_lines(&mut add).await?;
        Ok(all)
    }

    /// Passes on all tables of the kernel line by line.
    pub(super) async fn save_lines(&self, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        self.save_with(&[], each).await
    }

    /// Passes on the nat table line by line, each rule after `[PACKETS:BYTES]`.
    pub(crate) async fn save_counters(&self, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        self.save_with(&["-c", "-t", "nat"], each).await
    }

    async fn save_with(&self, args: &[&str], each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        let run = Run {
            program: &self.save,
            args,
            deadline: QUERY_DEADLINE,
            lock: Lock::Separate,
        };
        stdout_of(&self.save, run.lines(each).await).map(drop)
    }

    pub fn backend(&self) -> Backend {
        self.version.backend
    }
}

/// Runs a program without input, and returns its stdout if it succeeds within
/// [`QUERY_DEADLINE`].
pub(super) async fn query(program: &OsStr, args: &[&str]) -> Result<String, RunError> {
    query_within(QUERY_DEADLINE, program, args).await
}

/// Runs a program as [`query`] does, with another deadline.
pub(super) async fn query_within(
    deadline: Duration,
    program: &OsStr,
    args: &[&str],
) -> Result<String, RunError> {
    let run = Run {
        program,
        args,
        deadline,
        lock: Lock::Separate,
    };
    stdout_of(program, run.output().await)
}

pub(super) fn stdout_of(
    program: &OsStr,
    finished: std::io::Result<Finished>,
) -> Result<String, RunError> {
    let name = || program.to_string_lossy().into_owned();
    match finished {
        Ok(Finished {
            exit: ProgramExit::Exited(0),
            stdout,
            ..
        }) => Ok(String::from_utf8(stdout)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())),
        Ok(finished) => Err(RunError::Failed {
            program: name(),
            exit: finished.exit,
            stderr: finished.stderr,
        }),
        Err(cause) => Err(RunError::Spawn {
            program: name(),
            cause,
        }),
    }
}

#[cfg(test)]
#[path = "tests/binaries.rs"]
mod tests;
