//! Flags of kube-proxy that have no effect on this program.
//!
//! They are accepted so that kube-proxy's command line can be used unchanged. Most of them have a
//! field, which is validated and written back by `--write-config-to`.

use clap::{ArgAction, Args};

use super::{set, set_some};
use crate::config::go::{self, GoDuration};
use crate::config::kube_proxy::KubeProxyConfiguration;

/// Settings of proxy mode `ipvs`.
#[expect(
    clippy::struct_field_names,
    reason = "fields are named as their flags are"
)]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Accepted without effect")]
pub struct IpvsArgs {
    /// Mode ipvs: interval of full syncs
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub ipvs_sync_period: Option<GoDuration>,
    /// Mode ipvs: minimum interval between syncs
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub ipvs_min_sync_period: Option<GoDuration>,
    /// Mode ipvs: scheduler of virtual servers
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub ipvs_scheduler: Option<String>,
    /// Mode ipvs: networks that are not cleaned up
    #[arg(
        long,
        value_name = "CIDR,...",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub ipvs_exclude_cidrs: Option<Vec<String>>,
    /// Mode ipvs: arp_ignore 1 and arp_announce 2
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool,
          hide_short_help = true)]
    pub ipvs_strict_arp: Option<bool>,
    /// Mode ipvs: timeout of idle TCP connections
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub ipvs_tcp_timeout: Option<GoDuration>,
    /// Mode ipvs: timeout of TCP connections after a FIN
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub ipvs_tcpfin_timeout: Option<GoDuration>,
    /// Mode ipvs: timeout of UDP
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub ipvs_udp_timeout: Option<GoDuration>,
}

impl IpvsArgs {
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        let fields = &mut to.ipvs;
        set(&mut fields.sync_period, self.ipvs_sync_period.as_ref());
        set(
            &mut fields.min_sync_period,
            self.ipvs_min_sync_period.as_ref(),
        );
        set(&mut fields.scheduler, self.ipvs_scheduler.as_ref());
        set_some(&mut fields.exclude_cidrs, self.ipvs_exclude_cidrs.as_ref());
        set(&mut fields.strict_arp, self.ipvs_strict_arp.as_ref());
        set(&mut fields.tcp_timeout, self.ipvs_tcp_timeout.as_ref());
        set(
            &mut fields.tcp_fin_timeout,
            self.ipvs_tcpfin_timeout.as_ref(),
        );
        set(&mut fields.udp_timeout, self.ipvs_udp_timeout.as_ref());
    }
}

/// Settings of functions that this program does not have.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Accepted without effect")]
pub struct UnusedArgs {
    /// Interval of notifications about unchanged objects
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub config_sync_period: Option<GoDuration>,
    /// Previous version whose hidden metrics are shown; there are none
    #[arg(long, value_name = "VERSION", hide_short_help = true)]
    pub show_hidden_metrics_for_version: Option<String>,
    /// Files with the boot ID
    #[arg(long, value_name = "FILE,...", hide_short_help = true)]
    pub boot_id_file: Option<String>,
    /// Files with the machine ID
    #[arg(long, value_name = "FILE,...", hide_short_help = true)]
    pub machine_id_file: Option<String>,
}

impl UnusedArgs {
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        set(&mut to.config_sync_period, self.config_sync_period.as_ref());
        set(
            &mut to.show_hidden_metrics_for_version,
            self.show_hidden_metrics_for_version.as_ref(),
        );
    }

    /// Returns the flags that have no field and differ from their default.
    pub(in crate::config) fn without_field(&self) -> impl Iterator<Item = &'static str> {
        let boot = (
            self.boot_id_file.as_deref(),
            "/proc/sys/kernel/random/boot_id",
        );
        let machine = (
            self.machine_id_file.as_deref(),
            "/etc/machine-id,/var/lib/dbus/machine-id",
        );
        let is_other = |(given, default): (Option<&str>, &str)| given.is_some_and(|g| g != default);
        let boot = is_other(boot).then_some("boot-id-file");
        boot.into_iter()
            .chain(is_other(machine).then_some("machine-id-file"))
    }
}
