//! Flags of `run` and of `cleanup`, the commands that change the node.

use std::path::PathBuf;

use clap::{ArgMatches, Args};

use super::shared::{RulesArgs, SourceArgs, group_of_settings};
use crate::config::kube_proxy::{
    HEALTHZ_PORT, KubeProxyConfiguration, METRICS_PORT, OFF, add_port,
};
use crate::config::settings::{
    BACKENDS, FlagValues, LOG_STYLES, LogStyle, RULES, SECTIONS, SOURCE, choices,
};
use crate::host::BackendChoice;

/// Flags of `run`.
#[derive(Debug, Clone)]
pub struct RunArgs {
    /// The version is printed, and nothing else is done.
    pub prints_version: bool,
    /// Configuration file to read.
    pub config: Option<PathBuf>,
    /// Configuration file to write.
    pub write_config_to: Option<PathBuf>,
    pub(in crate::config) source: SourceArgs,
    pub(in crate::config) rules: RulesArgs,
    /// All flags, with those of `source` and `rules`.
    pub(in crate::config) flags: FlagValues,
}

group_of_settings!(RunArgs, SECTIONS);

impl RunArgs {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "other groups fail; `resolve` reports the problems of these flags"
    )]
    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = FlagValues::read(matches, SECTIONS);
        Ok(Self {
            prints_version: flags.get("version") == Some(true),
            config: flags.get("config"),
            write_config_to: flags.get("write-config-to"),
            source: SourceArgs::new(FlagValues::read(matches, &[&SOURCE])),
            rules: RulesArgs::new(FlagValues::read(matches, &[&RULES])),
            flags,
        })
    }

    /// Returns the style of log lines.
    pub(crate) fn log_style(&self) -> LogStyle {
        self.flags
            .choice("log-style", LOG_STYLES)
            .unwrap_or(LogStyle::Auto)
    }

    /// Reports whether the flags ask for JSON. A file may ask for it as well.
    pub(crate) fn asks_for_json(&self) -> bool {
        let format: Option<String> = self.flags.get("logging-format");
        format.as_deref() == Some("json")
    }

    /// Returns kube-proxy's defaults with every flag applied that was given.
    pub(in crate::config) fn configuration(&self) -> KubeProxyConfiguration {
        let mut configuration = KubeProxyConfiguration::defaults();
        self.apply(&mut configuration);
        configuration
    }

    /// Sets the fields whose flags were given.
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        self.flags.apply(to);
        let port = |flag, default| self.flags.get(flag).unwrap_or(default);
        complete(
            &mut to.metrics_bind_address,
            port("metrics-port", METRICS_PORT),
        );
        complete(
            &mut to.healthz_bind_address,
            port("healthz-port", HEALTHZ_PORT),
        );
    }

    /// Returns the metrics address that overrides that of a file.
    pub(in crate::config) fn metrics_override(&self) -> Option<String> {
        let mut address: String = self.flags.get(METRICS_OVERRIDE)?;
        complete(&mut address, METRICS_PORT);
        Some(address)
    }

    /// Returns the treatment of warnings; `None` without `--check-config`.
    pub(crate) fn config_check(&self) -> Option<ConfigCheck> {
        (self.flags.get("check-config") == Some(true)).then(|| {
            if self.flags.is_given("strict") {
                ConfigCheck::Strict
            } else {
                ConfigCheck::Lenient
            }
        })
    }

    /// Returns the selected action; `None` if `--cleanup` and `--init-only` are both set.
    ///
    /// Upstream: `cmd/kube-proxy/app/options.go`, `Run` (v1.37)
    ///
    /// Differs from upstream: there, `--cleanup` wins over `--init-only`. `--cleanup` removes the
    /// rules that `--init-only` prepares the node for, so giving both is a mistake.
    pub(in crate::config) fn action(&self) -> Option<Action> {
        match ["cleanup", "init-only"].map(|flag| self.flags.get(flag)) {
            [Some(true), Some(true)] => None,
            [Some(true), _] => Some(Action::Cleanup),
            [_, Some(true)] => Some(Action::Init),
            _ => Some(Action::Run),
        }
    }
}

/// Flag that overrides the metrics address of a file.
pub(in crate::config) const METRICS_OVERRIDE: &str = "metrics-bind-address-override";

/// Completes an address by the deprecated flag of its port. Port 0 and an empty address disable
/// the server; any other port only completes an address that has none. A disabled server is
/// written as `off`, because an empty address in a file means the default.
///
/// Upstream: `cmd/kube-proxy/app/options.go`, `addressFromDeprecatedFlags` (v1.37)
///
/// Differs from upstream: its help says that an empty address disables the server, but there it
/// means the default, and without metrics it ends with an error. A file that upstream writes lacks
/// the deprecated ports.
fn complete(address: &mut String, port: u16) {
    if port == 0 || address.is_empty() {
        OFF.clone_into(address);
    } else {
        add_port(address, port);
    }
}

/// Action that `run` performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Keep the rules up to date.
    Run,
    /// Set kernel settings, load modules and exit.
    Init,
    /// Remove all rules and exit.
    Cleanup,
}

/// Treatment of warnings by `--check-config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigCheck {
    /// Warnings are printed.
    Lenient,
    /// Warnings are printed, and the command fails: `--strict`.
    Strict,
}

/// Flags of `cleanup`, a command of its own because the settings that shape rules do not matter
/// for their removal.
#[derive(Debug, Clone, Args)]
pub struct CleanupArgs {
    /// Print the restore input instead of applying it
    #[arg(long)]
    pub dry_run: bool,
    /// Backend whose rules are removed, nft or legacy [default: both]
    #[arg(long, value_name = "BACKEND", value_parser = choices(BACKENDS))]
    pub iptables_backend: Option<BackendChoice>,
}

impl CleanupArgs {
    /// Returns the iptables binaries to use. Only `nft` and `legacy` limit cleanup to one backend.
    pub fn backend(&self) -> BackendChoice {
        self.iptables_backend.unwrap_or_default()
    }
}
