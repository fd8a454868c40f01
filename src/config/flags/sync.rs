//! When and how to sync.
//!
//! Apart because only a command that keeps rules up to date has these.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{set, set_some};
use crate::config::duration::GoDuration;
use crate::config::kube_proxy::KubeProxyConfiguration;
use crate::render::PartialRestore;

/// When and how to sync.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sync")]
pub struct SyncArgs {
    /// Print what would be restored instead of restoring it, and go on following the source
    #[arg(long)]
    pub dry_run: bool,
    /// How often to look whether somebody flushed or edited the rules, and the longest wait for a
    /// retry; health turns red once a change has waited for twice as long [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub iptables_sync_period: Option<GoDuration>,
    /// Minimum gap between two syncs; without it, and for 0 in a file, --sync-cpu-budget decides
    #[arg(long, value_name = "DURATION")]
    pub iptables_min_sync_period: Option<GoDuration>,
    /// CPU time that syncs may take under lasting change, in percent of one CPU for each family
    /// (1-100); isolated changes and short bursts never wait, no pause is longer than 1s, and
    /// --iptables-min-sync-period wins [default: 50 on nft, 1 on legacy]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub sync_cpu_budget: Option<u8>,
    /// How often to compare all rules in the kernel with the applied ones, whatever reported
    /// changes say; it takes at most 0.5 % of one CPU. 0 disables it [default: 5m]
    #[arg(long, value_name = "DURATION")]
    pub verify_interval: Option<GoDuration>,
    /// Existing directory for the payload of the last restore that failed, one file for each
    /// family; without it, none is written
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// What partial restores name: only changed chains, or what KEP-3453 says
    #[arg(
        long,
        value_name = "SHAPE",
        value_enum,
        default_value = "changed-chains"
    )]
    pub partial_restore: PartialRestoreArg,
}

impl SyncArgs {
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        let iptables = &mut to.iptables;
        set(
            &mut iptables.sync_period,
            self.iptables_sync_period.as_ref(),
        );
        set_some(
            &mut iptables.min_sync_period,
            self.iptables_min_sync_period.as_ref(),
        );
    }
}

/// `--partial-restore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartialRestoreArg {
    /// Chains whose rules differ from the kernel's
    ChangedChains,
    /// All chains of changed Services, and every shared chain
    #[value(name = "kep-3453")]
    Kep3453,
}

impl From<PartialRestoreArg> for PartialRestore {
    fn from(shape: PartialRestoreArg) -> Self {
        match shape {
            PartialRestoreArg::ChangedChains => Self::ChangedChains,
            PartialRestoreArg::Kep3453 => Self::Kep3453,
        }
    }
}
