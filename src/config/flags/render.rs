//! Flags of `render` and `diff`, the commands that compare or print rendered rules.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ColorArgs, DesiredArgs, SelectionArgs};
use crate::config::settings::{FlagWord, PARTIAL_RESTORES, choices};
use crate::net::IpFamily;
use crate::render::PartialRestore;

/// Flags of `render`.
#[derive(Debug, Clone, Args)]
pub struct RenderArgs {
    /// Services to render. A selection of them is printed for reading and cannot be restored.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// IP family, ipv4 or ipv6
    ///
    /// The output is input for iptables-restore or for ip6tables-restore.
    #[arg(
        long,
        value_name = "FAMILY",
        value_parser = choices(FAMILIES),
        default_value = "ipv4",
        hide_possible_values = true,
        ignore_case = true
    )]
    pub family: IpFamily,
    /// Print the partial restore since these manifests
    ///
    /// PATH is a file, a folder or `-`. Its rules are those in the kernel.
    #[arg(long, value_name = "PATH")]
    pub since: Vec<PathBuf>,
    /// Chains that the partial restore contains
    #[arg(
        long,
        value_name = "SHAPE",
        value_parser = choices(PARTIAL_RESTORES),
        default_value = "changed-chains",
        requires = "since",
        hide_short_help = true
    )]
    pub partial_restore: PartialRestore,
    /// Print the object of each chain and rule above it
    #[arg(long)]
    pub annotate: bool,
    /// Objects that are rendered.
    #[command(flatten)]
    pub desired: DesiredArgs,
}

/// Words of `--family`.
const FAMILIES: &[FlagWord<IpFamily>] = &[
    ("ipv4", "Input for iptables-restore", IpFamily::V4),
    ("ipv6", "Input for ip6tables-restore", IpFamily::V6),
];

/// Flags of `diff`.
///
/// Objects always stand for the desired side here, unlike in [`OriginArgs`](super::OriginArgs).
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// Services to compare. Differences of other Services are only counted.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Dump to compare instead of the kernel
    ///
    /// FILE is the output of iptables-save or ip6tables-save, or `-` for stdin. Give the flag
    /// twice for both families.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "from_manifests",
        help_heading = "Live rules"
    )]
    pub from_save: Vec<PathBuf>,
    /// Manifests to compare instead of the kernel
    ///
    /// PATH is a file, a folder or `-` for stdin.
    #[arg(
        long,
        value_name = "PATH",
        requires = "manifests",
        help_heading = "Live rules"
    )]
    pub from_manifests: Vec<PathBuf>,
    /// Output format
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        ignore_case = true,
        help_heading = "Output"
    )]
    pub output: DiffFormat,
    /// Short for --output unified
    #[arg(long, conflicts_with = "output", help_heading = "Output")]
    pub unified: bool,
    /// Exit with code 1 for cosmetic differences as well
    #[arg(long, help_heading = "Output")]
    pub strict: bool,
    /// Colors of text and unified output.
    #[command(flatten)]
    pub color: ColorArgs,
    /// Objects on the desired side.
    #[command(flatten)]
    pub desired: DesiredArgs,
}

/// Value of `--output` of `diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// Effects on traffic, by service port
    Text,
    /// Rules as in diff -u
    Unified,
    /// Machine-readable
    Json,
}
