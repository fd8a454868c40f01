//! Flags of `diff`: which two rulesets, and how the difference is shown.
//!
//! Apart from [`OriginArgs`](super::OriginArgs) because here objects say what is desired, never
//! what is.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{AskedArgs, RulesArgs, RulesFileArgs, SourceArgs};

/// Flags of `diff`.
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// Which Services; differences of others are counted.
    #[command(flatten)]
    pub which: AskedArgs,
    /// Compare what iptables-save or ip6tables-save wrote; twice for both, `-` for stdin
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "from_manifests",
        help_heading = "What is"
    )]
    pub from_save: Vec<PathBuf>,
    /// Compare what these manifests would become: a file, a folder or `-`
    #[arg(
        long,
        value_name = "PATH",
        requires = "manifests",
        help_heading = "What is"
    )]
    pub from_manifests: Option<PathBuf>,
    /// How to show it; KUBECTL_EXTERNAL_DIFF makes `unified` the default [default: text]
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        ignore_case = true,
        help_heading = "Output"
    )]
    pub output: Option<DiffFormat>,
    /// The same as --output unified
    #[arg(long, conflicts_with = "output", help_heading = "Output")]
    pub unified: bool,
    /// Exit with 1 for differences that no packet can tell, too
    #[arg(long, help_heading = "Output")]
    pub strict: bool,
    /// What is desired: objects.
    #[command(flatten)]
    pub source: SourceArgs,
    /// What takes the place of flags.
    #[command(flatten)]
    pub file: RulesFileArgs,
    /// What shapes the rules that they become.
    #[command(flatten)]
    pub rules: RulesArgs,
}

/// `--output` of `diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// By service port: what traffic notices
    Text,
    /// Rules as diff -u shows them, or by the program in KUBECTL_EXTERNAL_DIFF
    Unified,
    /// For machines
    Json,
}
