//! The file, and flags that are accepted so that kube-proxy's command line runs this program.
//!
//! Apart because nothing follows from most of them but the configuration that is written back.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::{set, set_some};
use crate::config::duration::GoDuration;
use crate::config::go;
use crate::config::kube_proxy::KubeProxyConfiguration;

/// Files of configuration.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "File")]
pub struct FileArgs {
    /// A KubeProxyConfiguration in place of kube-proxy's flags; ends with code 1 when it changes
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write the configuration to a file, and end
    #[arg(long, value_name = "FILE")]
    pub write_config_to: Option<PathBuf>,
}

/// Settings of another mode.
#[expect(
    clippy::struct_field_names,
    reason = "fields are named as their flags are"
)]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Accepted without effect")]
pub struct IpvsArgs {
    /// Mode ipvs only
    #[arg(long, value_name = "DURATION")]
    pub ipvs_sync_period: Option<GoDuration>,
    /// Mode ipvs only
    #[arg(long, value_name = "DURATION")]
    pub ipvs_min_sync_period: Option<GoDuration>,
    /// Mode ipvs only
    #[arg(long, value_name = "NAME")]
    pub ipvs_scheduler: Option<String>,
    /// Mode ipvs only
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',')]
    pub ipvs_exclude_cidrs: Option<Vec<String>>,
    /// Mode ipvs only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub ipvs_strict_arp: Option<bool>,
    /// Mode ipvs only
    #[arg(long, value_name = "DURATION")]
    pub ipvs_tcp_timeout: Option<GoDuration>,
    /// Mode ipvs only
    #[arg(long, value_name = "DURATION")]
    pub ipvs_tcpfin_timeout: Option<GoDuration>,
    /// Mode ipvs only
    #[arg(long, value_name = "DURATION")]
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

/// What this program does otherwise, or not at all.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Accepted without effect")]
pub struct UnusedArgs {
    /// How often everything is looked at again though it did not change; it is not
    #[arg(long, value_name = "DURATION")]
    pub config_sync_period: Option<GoDuration>,
    /// Serve metrics that the version before still had; there are none
    #[arg(long, value_name = "VERSION")]
    pub show_hidden_metrics_for_version: Option<String>,
    /// Where to find the boot ID; it is of no use
    #[arg(long, value_name = "FILE,...")]
    pub boot_id_file: Option<String>,
    /// Where to find the machine ID; it is of no use
    #[arg(long, value_name = "FILE,...")]
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

    /// The flags that no field stands for and that are not as they would be anyway.
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
