//! Which rules a command looks at.
//!
//! Apart from [`SourceArgs`] because these commands look at the kernel unless they are told
//! otherwise, and need no cluster.

use std::path::PathBuf;

use clap::Args;

use super::{RulesArgs, RulesFileArgs, SourceArgs};

/// Which rules a command looks at: the kernel's, a dump's, or those that would be written.
#[derive(Debug, Clone, Args)]
pub struct OriginArgs {
    /// Look at what iptables-save or ip6tables-save wrote; twice for both, `-` for stdin
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["manifests", "kubeconfig", "master"],
        help_heading = "Source"
    )]
    pub from_save: Vec<PathBuf>,
    /// Objects: with one of these, the rules that they would become.
    #[command(flatten)]
    pub source: SourceArgs,
    /// What takes the place of flags.
    #[command(flatten)]
    pub file: RulesFileArgs,
    /// What shapes those rules.
    #[command(flatten)]
    pub rules: RulesArgs,
}

impl OriginArgs {
    /// Whether objects are named, whose rules are meant instead of the kernel's.
    pub fn names_objects(&self) -> bool {
        let source = &self.source;
        source.manifests.is_some() || source.kubeconfig.is_some() || source.master.is_some()
    }
}
