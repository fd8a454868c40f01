//! Flags of `run` and of `cleanup`, the commands that change the node, and the groups of them that
//! other commands have as well: the objects that a command reads, and the settings that decide
//! rules.
//!
//! These flags are rows of the tables in [`settings`](super::settings). A flag that was not given
//! sets no field, so that flags which a file overrides can be named.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags` (v1.37)

use std::path::PathBuf;

use clap::{ArgMatches, Args};

use super::kube_proxy::{METRICS_PORT, complete_address};
use super::settings::{
    BACKENDS, FlagValues, LOG_STYLES, LogStyle, RULES, SECTIONS, SOURCE, choices,
};
use crate::host::BackendChoice;

/// Implements clap's traits for a group of the flags of some tables, which its `of` reads.
macro_rules! group_of_settings {
    ($group:ty, $sections:expr) => {
        impl clap::Args for $group {
            fn augment_args(command: clap::Command) -> clap::Command {
                $crate::config::settings::with_flags(command, $sections)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                Self::augment_args(command)
            }
        }

        impl clap::FromArgMatches for $group {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                Self::of(matches)
            }

            fn update_from_arg_matches(
                &mut self,
                matches: &clap::ArgMatches,
            ) -> Result<(), clap::Error> {
                *self = Self::of(matches)?;
                Ok(())
            }
        }
    };
}

/// Source of Services, EndpointSlices and the Node, for every command that reads objects.
#[derive(Debug, Clone)]
pub struct SourceArgs {
    /// File, folder or `-` for stdin, instead of a cluster.
    pub manifests: Option<PathBuf>,
    pub(super) flags: FlagValues,
}

group_of_settings!(SourceArgs, &[&SOURCE]);

impl SourceArgs {
    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = FlagValues::read(matches, &[&SOURCE]);
        flags.checked().map(Self::new)
    }

    pub(super) fn new(flags: FlagValues) -> Self {
        Self {
            manifests: flags.get("manifests"),
            flags,
        }
    }

    /// Reports whether flags name a source.
    pub fn names_objects(&self) -> bool {
        let is_given = |flag| self.flags.is_given(flag);
        self.manifests.is_some() || is_given("kubeconfig") || is_given("master")
    }
}

/// Settings that decide the content of rules.
#[derive(Debug, Clone)]
pub struct RulesArgs {
    pub(super) flags: FlagValues,
}

group_of_settings!(RulesArgs, &[&RULES]);

impl RulesArgs {
    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = FlagValues::read(matches, &[&RULES]);
        flags.checked().map(Self::new)
    }

    pub(super) const fn new(flags: FlagValues) -> Self {
        Self { flags }
    }

    pub(super) fn backend(&self) -> BackendChoice {
        self.flags
            .choice("iptables-backend", BACKENDS)
            .unwrap_or_default()
    }
}

/// Flags of `run`.
#[derive(Debug, Clone)]
pub struct RunArgs {
    /// The version is printed, and nothing else is done.
    pub prints_version: bool,
    pub config: Option<PathBuf>,
    pub write_config_to: Option<PathBuf>,
    pub(super) source: SourceArgs,
    pub(super) rules: RulesArgs,
    /// All flags, with those of `source` and `rules`.
    pub(super) flags: FlagValues,
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

    /// Returns the metrics address that overrides that of a file.
    pub(super) fn metrics_override(&self) -> Option<String> {
        let mut address: String = self.flags.get(METRICS_OVERRIDE)?;
        complete_address(&mut address, METRICS_PORT);
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
    pub(super) fn action(&self) -> Option<Action> {
        match ["cleanup", "init-only"].map(|flag| self.flags.get(flag)) {
            [Some(true), Some(true)] => None,
            [Some(true), _] => Some(Action::Cleanup),
            [_, Some(true)] => Some(Action::Init),
            _ => Some(Action::Run),
        }
    }
}

/// Flag that overrides the metrics address of a file.
pub(super) const METRICS_OVERRIDE: &str = "metrics-bind-address-override";

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
