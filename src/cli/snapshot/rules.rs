//! Rules of both families with the facts of the host that they need.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use super::proxy_report::Conflicts;
use crate::net::{IpFamily, PerFamily};
use crate::rules::{Backend, Network, RuleSet, Table};

/// Rules and their origin.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct RuleSnapshot {
    /// Rules of each family; empty for a family that was not read.
    pub(in crate::cli) rules: PerFamily<RuleSet>,
    /// Families that were read.
    pub(in crate::cli) families: BTreeSet<IpFamily>,
    /// Tables that a dump does not contain; a kernel has none of these.
    pub(in crate::cli) missing_tables: PerFamily<BTreeSet<Table>>,
    /// Known addresses of the node.
    pub(in crate::cli) node_addresses: BTreeSet<IpAddr>,
    /// Network of the pods, if a flag sets it; rules may not contain it.
    pub(in crate::cli) pods: PerFamily<Option<Network>>,
    /// Frontends that several Services declare; unknown for dumps.
    pub(in crate::cli) conflicts: PerFamily<Conflicts>,
    pub(in crate::cli) origin: RuleOrigin,
}

/// Origin of rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) enum RuleOrigin {
    /// Kernel of this host, read by the programs of a backend.
    Live(Backend),
    /// Dumps in files.
    Saved(Vec<PathBuf>),
    /// Rendered from objects.
    #[default]
    Desired,
}
