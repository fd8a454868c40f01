//! The rules that a command looks at, of both families, whichever way they came.
//!
//! Apart so that `diff`, `explain` and `services` mean the same by `--from-save`, `--manifests` and
//! by nothing at all.

mod cluster;
mod conflicts;
mod desired;
mod lacking;
mod live;
pub(super) mod proxy;
mod save;
pub(super) mod unruled;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::cli::file::Shape;
use crate::config::OriginArgs;
use crate::net::{IpFamily, PerFamily};
use crate::rules::{Backend, Network, RuleSet, Table};

pub(super) use conflicts::Conflicts;
pub(super) use desired::render as desired;
pub(super) use desired::{full, options, setting, trackers};
pub(super) use live::read as live;
pub(super) use save::read as saved;

/// Rules and where they are from.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// Empty for a family of which nothing was found.
    pub(super) rules: PerFamily<RuleSet>,
    /// The families that were looked at.
    pub(super) families: BTreeSet<IpFamily>,
    /// The tables of each family that a dump does not have; a kernel's are all known.
    pub(super) unseen: PerFamily<BTreeSet<Table>>,
    /// The node's own addresses, as far as they are known.
    pub(super) node_addresses: BTreeSet<IpAddr>,
    /// The pods' network, where the flags tell it: rules may not mention it.
    pub(super) pods: PerFamily<Option<Network>>,
    /// The frontends that several Services ask for; none are known of files.
    pub(super) conflicts: PerFamily<Conflicts>,
    pub(super) origin: Origin,
}

/// Where rules are from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// This machine's kernel, by the programs of a backend.
    Live(Backend),
    /// Files.
    Saved(Vec<PathBuf>),
    /// What would be written.
    #[default]
    Desired,
}

impl Snapshot {
    /// Gets the rules that the flags ask for.
    pub(super) fn load(args: &OriginArgs) -> anyhow::Result<Self> {
        if !args.from_save.is_empty() {
            return save::read(&args.from_save);
        }
        let config = Shape::read(&args.file, &args.rules)?.desired(&args.source)?;
        if args.names_objects() {
            desired::render(&config)
        } else {
            let mut snapshot = live::read(config.backend)?;
            snapshot.conflicts = conflicts::of_proxy();
            Ok(snapshot)
        }
    }
}
