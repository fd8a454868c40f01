//! Rules of both families, from the kernel, from dumps or rendered from objects.
//!
//! `--from-save`, `--manifests` and the default mean the same in `diff`, `explain` and `services`.

mod desired;
pub(super) mod missing;
pub(super) mod proxy_report;
mod recorded;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::cli::arguments::RuleSettings;
use crate::config::OriginArgs;
use crate::net::{IpFamily, PerFamily};
use crate::rules::{Backend, Network, RuleSet, Table};

pub(super) use desired::render as desired;
pub(super) use desired::{full, options, setting, trackers};
pub(super) use proxy_report::Conflicts;
pub(super) use recorded::{live, saved};

/// Rules and their origin.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleSnapshot {
    /// Rules of each family; empty for a family that was not read.
    pub(super) rules: PerFamily<RuleSet>,
    /// Families that were read.
    pub(super) families: BTreeSet<IpFamily>,
    /// Tables that a dump does not contain; a kernel has none of these.
    pub(super) missing_tables: PerFamily<BTreeSet<Table>>,
    /// Known addresses of the node.
    pub(super) node_addresses: BTreeSet<IpAddr>,
    /// Network of the pods, if a flag sets it; rules may not contain it.
    pub(super) pods: PerFamily<Option<Network>>,
    /// Frontends that several Services declare; unknown for dumps.
    pub(super) conflicts: PerFamily<Conflicts>,
    pub(super) origin: RuleOrigin,
}

/// Origin of rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum RuleOrigin {
    /// Kernel of this host, read by the programs of a backend.
    Live(Backend),
    /// Dumps in files.
    Saved(Vec<PathBuf>),
    /// Rendered from objects.
    #[default]
    Desired,
}

impl RuleSnapshot {
    /// Loads the rules that the flags select.
    pub(super) fn load(args: &OriginArgs) -> anyhow::Result<Self> {
        if !args.from_save.is_empty() {
            return recorded::saved(&args.from_save);
        }
        let config = RuleSettings::read(&args.file, &args.rules)?.desired(&args.source)?;
        if args.names_objects() {
            desired::render(&config)
        } else {
            let mut snapshot = recorded::live(config.backend)?;
            snapshot.conflicts = proxy_report::conflicts();
            Ok(snapshot)
        }
    }
}
