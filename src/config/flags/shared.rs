//! Flags that `run` and other commands share: the objects that a command reads, and the settings
//! that decide rules.

use std::path::PathBuf;

use clap::ArgMatches;

use crate::config::kube_proxy::KubeProxyConfiguration;
use crate::config::settings::{BACKENDS, FlagValues, RULES, SOURCE};
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

pub(super) use group_of_settings;

/// Source of Services, EndpointSlices and the Node, for every command that reads objects.
#[derive(Debug, Clone)]
pub struct SourceArgs {
    /// File, folder or `-` for stdin, instead of a cluster.
    pub manifests: Option<PathBuf>,
    pub(in crate::config) flags: FlagValues,
}

group_of_settings!(SourceArgs, &[&SOURCE]);

impl SourceArgs {
    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = FlagValues::read(matches, &[&SOURCE]);
        flags.check()?;
        Ok(Self::new(flags))
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
    flags: FlagValues,
}

group_of_settings!(RulesArgs, &[&RULES]);

impl RulesArgs {
    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = FlagValues::read(matches, &[&RULES]);
        flags.check()?;
        Ok(Self::new(flags))
    }

    pub(super) const fn new(flags: FlagValues) -> Self {
        Self { flags }
    }

    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        self.flags.apply(to);
    }

    /// Sets the fields whose flags override a file.
    pub(in crate::config) fn apply_over_file(&self, to: &mut KubeProxyConfiguration) {
        self.flags.apply_over_file(to);
    }

    /// Returns the variant of the iptables binaries.
    pub(in crate::config) fn backend(&self) -> BackendChoice {
        self.flags
            .choice("iptables-backend", BACKENDS)
            .unwrap_or_default()
    }
}
