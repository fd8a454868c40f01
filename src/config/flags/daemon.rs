//! Flags for the timing of syncs and for the kernel settings of the node.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::{set, set_some};
use crate::config::go::{self, GoDuration};
use crate::config::kube_proxy::KubeProxyConfiguration;
use crate::render::PartialRestore;

/// Timing and form of syncs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sync")]
pub struct SyncArgs {
    /// Print restore input instead of applying it
    ///
    /// The source of objects is followed as usual. No port is opened and no Event is written, so
    /// that it can run beside the proxy of the node.
    #[arg(long)]
    pub dry_run: bool,
    /// Interval of checks for lost rules; maximum retry delay [default: 30s]
    ///
    /// A check detects rules that were flushed or edited. Health turns red when a change waits for
    /// more than twice this interval.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub iptables_sync_period: Option<GoDuration>,
    /// Minimum interval between syncs [default: by CPU budget]
    ///
    /// Without this flag, and with 0 in a file, --sync-cpu-budget decides.
    #[arg(long, value_name = "DURATION")]
    pub iptables_min_sync_period: Option<GoDuration>,
    /// CPU limit of syncs, 1-100 % [default: nft 50, legacy 1]
    ///
    /// The limit is in percent of one CPU for each family. It holds under lasting change: isolated
    /// changes and short bursts are never delayed, and no delay is longer than 1s. It is
    /// overridden by --iptables-min-sync-period.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub sync_cpu_budget: Option<u8>,
    /// Interval of full rule verification; 0 disables it [default: 5m]
    ///
    /// A verification compares all rules in the kernel with the applied ones, whether or not the
    /// kernel reported a change. Verifications take at most 0.5 % of one CPU.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub verify_interval: Option<GoDuration>,
    /// Existing directory for the last failed restore input [default: none]
    ///
    /// There is one file for each IP family.
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub state_dir: Option<PathBuf>,
    /// Chains that a partial restore contains
    #[arg(
        long,
        value_name = "SHAPE",
        value_enum,
        default_value = "changed-chains",
        hide_short_help = true
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

/// Value of `--partial-restore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartialRestoreArg {
    /// Only chains whose rules changed
    ChangedChains,
    /// All chains of changed Services and every shared chain, as in KEP-3453
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

/// Kernel settings of the node; no rule depends on them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// Maximum tracked connections per CPU [default: 32768]
    ///
    /// 0 leaves nf_conntrack_max unchanged.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = go::int)]
    pub conntrack_max_per_core: Option<i32>,
    /// Minimum of nf_conntrack_max [default: 131072]
    ///
    /// Without effect if --conntrack-max-per-core is 0.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = go::int)]
    pub conntrack_min: Option<i32>,
    /// Conntrack timeout of idle TCP connections [default: 24h]
    ///
    /// 0 leaves the kernel setting unchanged.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub conntrack_tcp_timeout_established: Option<GoDuration>,
    /// Conntrack timeout of TCP connections in CLOSE_WAIT [default: 1h]
    ///
    /// 0 leaves the kernel setting unchanged.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub conntrack_tcp_timeout_close_wait: Option<GoDuration>,
    /// Set nf_conntrack_tcp_be_liberal: accept packets outside of the TCP window [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool,
          hide_short_help = true)]
    pub conntrack_tcp_be_liberal: Option<bool>,
    /// Conntrack timeout of UDP without a reply [default: 0]
    ///
    /// 0 leaves the kernel setting unchanged.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub conntrack_udp_timeout: Option<GoDuration>,
    /// Conntrack timeout of UDP with replies [default: 0]
    ///
    /// 0 leaves the kernel setting unchanged.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub conntrack_udp_timeout_stream: Option<GoDuration>,
    /// Value for oom_score_adj of this process, -1000 to 1000 [default: -999]
    #[arg(
        long,
        value_name = "SCORE",
        allow_negative_numbers = true,
        value_parser = go::int,
        hide_short_help = true
    )]
    pub oom_score_adj: Option<i32>,
}

impl NodeArgs {
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        let fields = &mut to.conntrack;
        set_some(
            &mut fields.max_per_core,
            self.conntrack_max_per_core.as_ref(),
        );
        set_some(&mut fields.min, self.conntrack_min.as_ref());
        set_some(
            &mut fields.tcp_established_timeout,
            self.conntrack_tcp_timeout_established.as_ref(),
        );
        set_some(
            &mut fields.tcp_close_wait_timeout,
            self.conntrack_tcp_timeout_close_wait.as_ref(),
        );
        set(
            &mut fields.tcp_be_liberal,
            self.conntrack_tcp_be_liberal.as_ref(),
        );
        set(&mut fields.udp_timeout, self.conntrack_udp_timeout.as_ref());
        set(
            &mut fields.udp_stream_timeout,
            self.conntrack_udp_timeout_stream.as_ref(),
        );
        set_some(&mut to.oom_score_adj, self.oom_score_adj.as_ref());
    }
}
