//! What this machine is set to at the start.
//!
//! Apart because these are of the machine, and no rule depends on them.

use clap::{ArgAction, Args};

use super::{set, set_some};
use crate::config::duration::GoDuration;
use crate::config::go;
use crate::config::kube_proxy::KubeProxyConfiguration;

/// Settings of this machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// Connections to track for each processor, 0 for as many as now [default: 32768]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = go::int)]
    pub conntrack_max_per_core: Option<i32>,
    /// Connections to track at least [default: 131072]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = go::int)]
    pub conntrack_min: Option<i32>,
    /// How long idle TCP connections are remembered, 0 for as long as now [default: 24h]
    #[arg(long, value_name = "DURATION")]
    pub conntrack_tcp_timeout_established: Option<GoDuration>,
    /// How long half-closed ones are, 0 for as long as now [default: 1h]
    #[arg(long, value_name = "DURATION")]
    pub conntrack_tcp_timeout_close_wait: Option<GoDuration>,
    /// Let packets outside of the TCP window pass [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub conntrack_tcp_be_liberal: Option<bool>,
    /// How long unanswered UDP is remembered, 0 for as long as now [default: 0]
    #[arg(long, value_name = "DURATION")]
    pub conntrack_udp_timeout: Option<GoDuration>,
    /// How long answered UDP is, 0 for as long as now [default: 0]
    #[arg(long, value_name = "DURATION")]
    pub conntrack_udp_timeout_stream: Option<GoDuration>,
    /// How ready the kernel is to kill this process [default: -999]
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true, value_parser = go::int)]
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
