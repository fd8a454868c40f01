//! Which iptables programs to run.
//!
//! Apart because a host can carry two sets of them that see different rules, and writing with the
//! set that kubelet and the network plugin do not use makes rules that no packet follows in order.
//! Which one kubelet uses is found out in [`hint`](super::hint).
//!
//! # Source
//!
//! Upstream: `kubernetes-sigs/iptables-wrappers`, `pkg/xtables/detect.go` (the official image)

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::net::IpFamily;

use super::nft_tables::has_nft_chain;
use super::process::{Finished, Lock, Run};
use super::{Ending, RunError, Version};
use crate::rules::Backend;

/// For everything but restores and the reading of whole tables.
pub(super) const QUERY_DEADLINE: Duration = Duration::from_secs(60);

/// Which set of programs is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// The plain names through PATH, as kube-proxy runs them.
    Path,
    /// The set whose rules hold kubelet's hint chain. Without one, the plain names, which honors
    /// whoever prepared PATH: `update-alternatives`, a folder of links; nft where these do not
    /// start.
    ///
    /// Differs from upstream: there the image's plain names are a wrapper that looks for the hint.
    /// It puts links in its own place, which a read-only root file system does not allow.
    #[default]
    Auto,
    /// `iptables-nft` and its companions.
    Nft,
    /// `iptables-legacy` and its companions.
    Legacy,
}

/// The programs of one IP family, known to start.
#[derive(Debug, Clone)]
pub struct Programs {
    /// Whose rules they handle.
    pub family: IpFamily,
    /// `iptables` or another name of it.
    pub iptables: OsString,
    /// `iptables-save` or another name of it.
    pub save: OsString,
    /// `iptables-restore` or another name of it.
    pub restore: OsString,
    /// What `iptables --version` said.
    pub version: Version,
}

impl Programs {
    /// Finds the programs through PATH and asks for their version.
    pub async fn discover(choice: BackendChoice, family: IpFamily) -> Result<Self, RunError> {
        Search::new(None, family).discover(choice).await
    }

    /// The plain names in one folder, for whoever keeps programs outside PATH.
    pub async fn in_folder(folder: &Path, family: IpFamily) -> Result<Self, RunError> {
        let search = Search::new(Some(folder.to_owned()), family);
        search.discover(BackendChoice::Path).await
    }

    /// Programs that were not looked for: plain names, and a version that knows everything we use.
    /// For runs that only print.
    pub fn assumed(family: IpFamily) -> Self {
        let stem = match family {
            IpFamily::V4 => "iptables",
            IpFamily::V6 => "ip6tables",
        };
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

    /// Whether the kernel answers for this family: lists one chain of the nat table.
    ///
    /// Upstream: `pkg/util/iptables/iptables.go`, `Present` (v1.36)
    pub async fn probe(&self) -> Result<(), RunError> {
        let mut args = vec!["-S", "POSTROUTING", "-t", "nat"];
        if self.version.features().wait_seconds {
            args.splice(0..0, ["-w", "5"]);
        }
        match query(&self.iptables, &args).await {
            // A rule that cannot be printed is only found where the table is.
            Err(error) => match error.explained() {
                RunError::Unprintable { .. } => Ok(()),
                other => Err(other),
            },
            Ok(_) => Ok(()),
        }
    }
}

/// Where to look, and for which family.
pub(super) struct Search {
    pub(super) folder: Option<PathBuf>,
    pub(super) family: IpFamily,
    /// Where the kernel tells of this network namespace.
    pub(super) net: PathBuf,
    /// Whether nftables has, for a family, in a table, a chain.
    pub(super) has_nft_chain: fn(IpFamily, &str, &str) -> bool,
}

impl Search {
    /// In one folder, or through PATH.
    pub(super) fn new(folder: Option<PathBuf>, family: IpFamily) -> Self {
        Self {
            folder,
            family,
            net: "/proc/thread-self/net".into(),
            has_nft_chain,
        }
    }

    pub(super) async fn discover(&self, choice: BackendChoice) -> Result<Programs, RunError> {
        match choice {
            BackendChoice::Path => self.with("").await,
            BackendChoice::Nft => self.with("-nft").await,
            BackendChoice::Legacy => self.with("-legacy").await,
            BackendChoice::Auto => self.fitting().await,
        }
    }

    /// The programs that write where kubelet writes, or else those that are there.
    async fn fitting(&self) -> Result<Programs, RunError> {
        let hinted = match self.hinted().await {
            Some(Backend::Nft) => self.with("-nft").await.ok(),
            Some(Backend::Legacy) => self.with("-legacy").await.ok(),
            None => None,
        };
        if let Some(programs) = hinted {
            return Ok(programs);
        }
        match self.with("").await {
            Ok(programs) => Ok(programs),
            Err(cause) => self.with("-nft").await.map_err(|_| cause),
        }
    }

    /// The programs whose names have this infix.
    async fn with(&self, suffix: &str) -> Result<Programs, RunError> {
        let iptables = self.name(self.family, suffix, "");
        let text = query(&iptables, &["--version"]).await?;
        let version = Version::parse(&text).ok_or_else(|| RunError::Failed {
            program: iptables.to_string_lossy().into_owned(),
            ending: Ending::Exited(0),
            stderr: format!("no version in `{}`", text.trim()),
        })?;
        Ok(Programs {
            family: self.family,
            save: self.name(self.family, suffix, "-save"),
            restore: self.name(self.family, suffix, "-restore"),
            iptables,
            version,
        })
    }

    pub(super) fn name(&self, family: IpFamily, suffix: &str, role: &str) -> OsString {
        let prefix = match family {
            IpFamily::V4 => "iptables",
            IpFamily::V6 => "ip6tables",
        };
        let name = format!("{prefix}{suffix}{role}");
        match &self.folder {
            Some(folder) => folder.join(name).into_os_string(),
            None => name.into(),
        }
    }
}

impl Programs {
    /// All tables of the kernel, as the save program prints them.
    pub async fn save_all(&self) -> Result<String, RunError> {
        let mut all = String::new();
        let mut add = |line: &str| {
            all.push_str(line);
            all.push('\n');
        };
        self.save_lines(&mut add).await?;
        Ok(all)
    }

    /// The same line by line, none of which is kept.
    pub(super) async fn save_lines(&self, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        let run = Run {
            program: &self.save,
            args: &[],
            deadline: QUERY_DEADLINE,
            lock: Lock::Separate,
        };
        printed(&self.save, run.lines(each).await).map(drop)
    }

    /// The backend that `--version` named.
    pub fn backend(&self) -> Backend {
        self.version.backend
    }
}

/// What a program prints, if it succeeds within the deadline for queries.
pub(super) async fn query(program: &OsStr, args: &[&str]) -> Result<String, RunError> {
    query_within(QUERY_DEADLINE, program, args).await
}

/// The same within another deadline.
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
    printed(program, run.output().await)
}

/// What a program printed, if it succeeded.
pub(super) fn printed(
    program: &OsStr,
    finished: std::io::Result<Finished>,
) -> Result<String, RunError> {
    let name = || program.to_string_lossy().into_owned();
    match finished {
        Ok(Finished {
            ending: Ending::Exited(0),
            stdout,
            ..
        }) => Ok(String::from_utf8(stdout)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())),
        Ok(finished) => Err(RunError::Failed {
            program: name(),
            ending: finished.ending,
            stderr: finished.stderr,
        }),
        Err(source) => Err(RunError::Spawn {
            program: name(),
            source,
        }),
    }
}
