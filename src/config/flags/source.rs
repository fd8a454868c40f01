//! Flags that select what a command reads: objects, the kernel's rules or a dump of them, and
//! which Services of these.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::shared::{RulesArgs, RulesFileArgs, SourceArgs};
use crate::config::problems::Unusable;
use crate::inspect::catalog::{NamePattern, PortQuery};

/// Source of the rules that a command inspects: the kernel, a dump, or objects to render.
///
/// Without a flag it is the kernel, so that these commands need no cluster.
#[derive(Debug, Clone, Args)]
pub struct OriginArgs {
    /// Dump to read instead of the kernel
    ///
    /// FILE is the output of iptables-save or ip6tables-save, or `-` for stdin. Give the flag
    /// twice for both families.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["manifests", "kubeconfig", "master"],
        help_heading = "Source"
    )]
    pub from_save: Vec<PathBuf>,
    /// Objects whose rendered rules are inspected.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Configuration file that replaces the flags of `rules`.
    #[command(flatten)]
    pub file: RulesFileArgs,
    /// Settings that decide the content of rendered rules.
    #[command(flatten)]
    pub rules: RulesArgs,
}

impl OriginArgs {
    /// Reports whether flags name objects, so that rendered rules are read instead of the
    /// kernel's.
    pub fn names_objects(&self) -> bool {
        self.source.names_objects()
    }
}

/// Selection of Services by name, by namespace or both.
#[derive(Debug, Clone, Args)]
pub struct SelectionArgs {
    /// Only these Services, as in web, shop/web:http or shop/dns:53/udp
    #[arg(value_name = "NAME")]
    pub names: Vec<NamePattern>,
    /// Only Services of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Services of all namespaces, as without --namespace
    #[arg(
        short = 'A',
        long,
        conflicts_with = "namespace",
        hide_short_help = true
    )]
    pub all_namespaces: bool,
}

impl SelectionArgs {
    /// Combines names and namespace.
    ///
    /// # Errors
    ///
    /// A name is qualified with another namespace than `--namespace`.
    pub fn asked(&self) -> Result<PortQuery, Unusable> {
        PortQuery::new(&self.names, self.namespace.as_deref())
            .map_err(|error| Unusable::of_flag("namespace", error.to_string()))
    }
}

/// Hidden flag with which completion scripts list names.
///
/// The script adds it to the command line that is completed, whose other flags select the rules.
#[derive(Debug, Clone, Copy, Args)]
pub struct NamesArgs {
    /// Print names only, for completion scripts
    #[arg(long = "names", value_enum, num_args = 0..=1, require_equals = true, hide = true,
          default_missing_value = "services", action = ArgAction::Set)]
    pub only: Option<NamesArg>,
}

/// Value of `--names`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NamesArg {
    /// Names of Services, with their namespace unless --namespace is set
    Services,
    /// Names of namespaces
    Namespaces,
}
