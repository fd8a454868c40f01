//! Rules of both families with the facts of the host that they need.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use super::proxy_report::Conflicts;
use crate::inspect::catalog::{ProxyMode, RulesetSource};
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
    /// Sources of the rules, which decide whether entry jumps are expected.
    pub(in crate::cli) sources: PerFamily<RulesetSource>,
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

impl fmt::Display for RuleOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live(backend) => write!(f, "the kernel's rules ({backend})"),
            Self::Saved(paths) => {
                let paths = paths.iter().map(|path| format!("`{}`", path.display()));
                f.write_str(&paths.collect::<Vec<_>>().join(", "))
            }
            Self::Desired => f.write_str("the desired rules"),
        }
    }
}

impl RuleSnapshot {
    /// Returns a sentence if the rules are not those of a kube-proxy in mode iptables.
    pub(in crate::cli) fn absence(&self) -> Option<String> {
        let rules = self.families.iter().map(|family| self.rules.get(*family));
        let modes: BTreeSet<ProxyMode> = rules.filter_map(ProxyMode::of).collect();
        let origin = &self.origin;
        if modes.contains(&ProxyMode::Iptables) || self.origin == RuleOrigin::Desired {
            return None;
        }
        Some(if modes.contains(&ProxyMode::Ipvs) {
            format!(
                "{origin}: rules of a kube-proxy in IPVS mode, which has Services in tables of IPVS\n\
                 hint: run `ipvsadm -Ln` on the node to list them"
            )
        } else {
            format!(
                "{origin}: no rules of a kube-proxy in iptables mode\n\
                 hint: in nftables mode, `nft list table ip kube-proxy` lists its rules"
            )
        })
    }
}
