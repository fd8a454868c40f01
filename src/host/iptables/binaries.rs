//! The iptables binaries of one IP family, queries with them, and the choice of their backend, nft
//! or legacy, with leftovers of a proxy in the other one.
//!
//! A host can have binaries of both backends, which see different rules, while packets traverse
//! both. Rules belong into the backend of kubelet and the network plugin: in the other one, the
//! order of rules would be undefined. Kubelet marks its backend by a chain in the mangle table.
//!
//! Checks for that chain change nothing and are cheap: legacy creates a table when it is read, and
//! the nft binaries read the whole ruleset first, so that the kernel is queried directly.
//!
//! # Source
//!
//! Upstream: `kubernetes-sigs/iptables-wrappers`, `pkg/xtables/detect.go` (the official image)

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, fs};

use super::super::netlink::nftables::has_nft_chain;
use super::interface::RunError;
use super::process::{Finished, Lock, ProgramExit, Run};
use crate::net::IpFamily;
use crate::rules::{Backend, Table};

/// Deadline of listing and of changing rules other than by a restore.
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

    /// Finds the binaries through PATH and queries their version. Changes nothing in the kernel.
    pub async fn discover(choice: BackendChoice, family: IpFamily) -> Result<Self, RunError> {
        BinarySearch::new(None, family).discover(choice).await
    }

    /// Finds binaries as [`discover`](Self::discover) does, to write rules: [probes](Self::probe)
    /// that they work with the kernel, which may create a table of legacy.
    pub async fn discover_usable(
        choice: BackendChoice,
        family: IpFamily,
    ) -> Result<Self, RunError> {
        BinarySearch::new(None, family)
            .discover_usable(choice)
            .await
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

/// Chains that kubelet creates in its backend; the first is the newer name.
const HINTS: [&str; 2] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];

/// Oldest supported version, the first whose restore program waits for the xtables lock.
const OLDEST: (u16, u16, u16) = (1, 6, 2);

/// Deadline of the check for a hint: no rules are written before all checks are done. A program
/// that times out counts as one without hint.
const HINT_DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// Plain names, found through PATH, as kube-proxy runs them.
    Path,
    /// Backend in which kubelet's hint chain exists. Without a hint, the plain names, which follow
    /// `update-alternatives` or a folder of links in PATH; nft where the plain names are unusable,
    /// for example those of legacy on a kernel without legacy tables.
    ///
    /// Differs from upstream: there the image's plain names are a wrapper that looks for the hint.
    /// It replaces itself by links, which a read-only root file system does not allow.
    #[default]
    Auto,
    /// `iptables-nft`, `iptables-nft-save` and `iptables-nft-restore`.
    Nft,
    /// `iptables-legacy`, `iptables-legacy-save` and `iptables-legacy-restore`.
    Legacy,
}

/// Returns the binaries of each backend that the host has for a family; with the choice of one
/// backend, only those.
///
/// # Errors
///
/// Some are too old. Ones that do not start count as missing.
pub(crate) async fn all_binaries(
    choice: BackendChoice,
    family: IpFamily,
) -> Result<Vec<Binaries>, RunError> {
    use BackendChoice::{Auto, Legacy, Nft, Path};

    let choices: &[BackendChoice] = match choice {
        // A host with one backend may only have the plain names.
        Path | Auto => &[Nft, Legacy, Path],
        Nft => &[Nft],
        Legacy => &[Legacy],
    };
    let mut found: Vec<Binaries> = Vec::new();
    for choice in choices {
        match Binaries::discover(*choice, family).await {
            Ok(binaries) => {
                let is_other = |other: &Binaries| other.backend() != binaries.backend();
                if found.iter().all(is_other) {
                    found.push(binaries);
                }
            }
            Err(cause @ RunError::TooOld { .. }) => return Err(cause),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Returns the other backend, if it has rules of a proxy. A host without its binaries counts as one
/// without such rules.
pub(crate) async fn other_backend(used: Backend, family: IpFamily) -> Option<Backend> {
    let binaries = other_binaries(used, family).await?;
    let has_rules = has_proxy_rules(&binaries).await.ok()?;
    has_rules.then_some(binaries.backend())
}

/// Signs that a proxy may have rules in the other backend, or not anymore.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OtherBackendSigns {
    /// Tables of legacy, as the kernel lists them.
    LegacyTables(String),
    /// Presence of the chain KUBE-SERVICES in nft.
    NftChain(bool),
}

/// Returns the signs, without starting a program.
pub(crate) fn other_backend_signs(used: Backend, family: IpFamily) -> OtherBackendSigns {
    let search = BinarySearch::new(None, family);
    match used {
        Backend::Nft => OtherBackendSigns::LegacyTables(search.legacy_tables(family)),
        Backend::Legacy => {
            let table = Table::Nat.as_str();
            OtherBackendSigns::NftChain((search.has_nft_chain)(family, table, "KUBE-SERVICES"))
        }
    }
}

/// Returns the other backend and its rules, as the save program prints them, if rules of a proxy
/// are among them. A host without its binaries counts as one without such rules.
pub(crate) async fn other_rules(used: Backend, family: IpFamily) -> Option<(Backend, String)> {
    let binaries = other_binaries(used, family).await?;
    let text = binaries.save_all().await.ok()?;
    let has_rules = text.lines().any(is_services_chain);
    has_rules.then_some((binaries.backend(), text))
}

async fn other_binaries(used: Backend, family: IpFamily) -> Option<Binaries> {
    let choice = match used {
        Backend::Nft => BackendChoice::Legacy,
        Backend::Legacy => BackendChoice::Nft,
    };
    let binaries = Binaries::discover(choice, family).await.ok()?;
    (binaries.backend() != used).then_some(binaries)
}

/// Reports whether a table exists; to list one of legacy would create it. Tables of nft that do
/// not exist are listed as empty ones.
pub(crate) fn has_table(backend: Backend, table: Table, family: IpFamily) -> bool {
    match backend {
        Backend::Nft => true,
        Backend::Legacy => BinarySearch::new(None, family).has_legacy_table(table.as_str(), family),
    }
}

/// Returns the backend that kubelet uses; `None` if it has no hint.
pub(crate) async fn kubelet_backend(family: IpFamily) -> Option<Backend> {
    BinarySearch::new(None, family).kubelet_backend().await
}

/// Reports whether a table has the chain KUBE-SERVICES.
async fn has_proxy_rules(binaries: &Binaries) -> Result<bool, RunError> {
    // Reads all tables, as legacy would create a single one that is missing.
    let mut is_found = false;
    let mut check = |line: &str| is_found |= is_services_chain(line);
    binaries.save_lines(&mut check).await?;
    Ok(is_found)
}

/// Reports whether a line of the save program declares the chain KUBE-SERVICES.
fn is_services_chain(line: &str) -> bool {
    line.starts_with(":KUBE-SERVICES ")
}

/// Search for the binaries of a family.
pub(in crate::host) struct BinarySearch {
    /// Folder of the binaries; `None` for PATH.
    pub(in crate::host) folder: Option<PathBuf>,
    pub(in crate::host) family: IpFamily,
    /// Folder in which the kernel describes this network namespace.
    pub(in crate::host) net: PathBuf,
    /// Reports whether nftables has, for a family, in a table, a chain.
    pub(in crate::host) has_nft_chain: fn(IpFamily, &str, &str) -> bool,
}

impl BinarySearch {
    pub(in crate::host) fn new(folder: Option<PathBuf>, family: IpFamily) -> Self {
        Self {
            folder,
            family,
            net: "/proc/thread-self/net".into(),
            has_nft_chain,
        }
    }

    pub(in crate::host) async fn discover(
        &self,
        choice: BackendChoice,
    ) -> Result<Binaries, RunError> {
        if choice != BackendChoice::Auto {
            return self.find(infix(choice)).await;
        }
        if let Some(binaries) = self.find_like_kubelet().await {
            return Ok(binaries);
        }
        let plain = self.find_plain().await?;
        // Without this table legacy has no rules of a proxy. A probe could create it.
        let has_nat = || self.has_legacy_table(Table::Nat.as_str(), self.family);
        if plain.backend() == Backend::Legacy && !has_nat() {
            return Ok(self.find("-nft").await.unwrap_or(plain));
        }
        Ok(plain)
    }

    pub(in crate::host) async fn discover_usable(
        &self,
        choice: BackendChoice,
    ) -> Result<Binaries, RunError> {
        let plain = match choice {
            BackendChoice::Auto => match self.find_like_kubelet().await {
                Some(binaries) => return probed(binaries).await,
                None => self.find_plain().await?,
            },
            other => return probed(self.find(infix(other)).await?).await,
        };
        let backend = plain.backend();
        match probed(plain).await {
            // As on a kernel without legacy tables. Any other error may be gone a moment later.
            Err(
                cause @ RunError::Failed {
                    exit: ProgramExit::Exited(_),
                    ..
                },
            ) if backend == Backend::Legacy && !cause.is_transient() => {
                let nft = async { probed(self.find("-nft").await?).await };
                nft.await.map_err(|_: RunError| cause)
            }
            result => result,
        }
    }

    /// Finds the binaries of the backend that kubelet uses; `None` without a hint or without them.
    async fn find_like_kubelet(&self) -> Option<Binaries> {
        let choice = match self.kubelet_backend().await? {
            Backend::Nft => BackendChoice::Nft,
            Backend::Legacy => BackendChoice::Legacy,
        };
        self.find(infix(choice)).await.ok()
    }

    /// Finds the binaries with plain names, or else those of nft.
    async fn find_plain(&self) -> Result<Binaries, RunError> {
        match self.find("").await {
            Ok(binaries) => Ok(binaries),
            Err(cause) => self.find("-nft").await.map_err(|_| cause),
        }
    }

    async fn find(&self, infix: &str) -> Result<Binaries, RunError> {
        let iptables = self.name(self.family, infix, "");
        let text = query(&iptables, &["--version"]).await?;
        let program = iptables.to_string_lossy().into_owned();
        let version = match Version::parse(&text) {
            Some(version) if version.number >= OLDEST => version,
            Some(Version { number, .. }) => return Err(RunError::TooOld { program, number }),
            None => {
                return Err(RunError::Failed {
                    program,
                    exit: ProgramExit::Exited(0),
                    stderr: format!("no version in `{}`", text.trim()),
                });
            }
        };
        Ok(Binaries {
            family: self.family,
            save: self.name(self.family, infix, "-save"),
            restore: self.name(self.family, infix, "-restore"),
            iptables,
            version,
        })
    }

    fn name(&self, family: IpFamily, infix: &str, suffix: &str) -> OsString {
        let name = format!("{}{infix}{suffix}", family.iptables());
        match &self.folder {
            Some(folder) => folder.join(name).into_os_string(),
            None => name.into(),
        }
    }

    /// Returns the backend with kubelet's hint in either family, nft before legacy.
    async fn kubelet_backend(&self) -> Option<Backend> {
        for backend in Backend::ALL {
            for family in IpFamily::ALL {
                if self.has_hint(backend, family).await {
                    return Some(backend);
                }
            }
        }
        None
    }

    /// Reports whether kubelet's hint chain exists. Legacy is queried only for a table that exists:
    /// otherwise it would create the table, which slows down every packet.
    async fn has_hint(&self, backend: Backend, family: IpFamily) -> bool {
        let table = Table::Mangle.as_str();
        match backend {
            Backend::Nft => HINTS
                .iter()
                .any(|chain| (self.has_nft_chain)(family, table, chain)),
            Backend::Legacy if !self.has_legacy_table(table, family) => false,
            Backend::Legacy => {
                let save = self.name(family, "-legacy", "-save");
                let saved = query_within(HINT_DEADLINE, &save, &["-t", table]).await;
                // If the program is not installed, or the family disabled, there is no hint.
                saved.is_ok_and(|saved| saved.lines().any(is_hint))
            }
        }
    }

    fn has_legacy_table(&self, table: &str, family: IpFamily) -> bool {
        let names = self.legacy_tables(family);
        names.lines().any(|name| name == table)
    }

    /// Returns the names of the tables that legacy has created. A kernel without legacy has no list
    /// of them.
    fn legacy_tables(&self, family: IpFamily) -> String {
        let list = self.net.join(match family {
            IpFamily::V4 => "ip_tables_names",
            IpFamily::V6 => "ip6_tables_names",
        });
        fs::read_to_string(list).unwrap_or_default()
    }
}

/// Returns the part of the binaries' names that selects a backend.
const fn infix(choice: BackendChoice) -> &'static str {
    match choice {
        BackendChoice::Path | BackendChoice::Auto => "",
        BackendChoice::Nft => "-nft",
        BackendChoice::Legacy => "-legacy",
    }
}

/// Returns binaries that work with the kernel.
async fn probed(binaries: Binaries) -> Result<Binaries, RunError> {
    binaries.probe().await?;
    Ok(binaries)
}

/// Reports whether a line of the save program declares a hint chain.
fn is_hint(line: &str) -> bool {
    let chain = line.strip_prefix(':');
    let name = chain.and_then(|chain| chain.split(' ').next());
    name.is_some_and(|name| HINTS.contains(&name))
}

#[cfg(test)]
#[path = "tests/binaries.rs"]
mod version_tests;

#[cfg(test)]
#[path = "tests/backend.rs"]
mod backend_tests;
