//! Flags of `render` and `diff`, the commands that compare or print rendered rules.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{NamesArgs, RulesArgs, RulesFileArgs, SelectionArgs, SourceArgs};
use crate::config::addresses;
use crate::config::settings::PartialRestoreArg;
use crate::net::{IpFamily, IpNet, PerFamily};
use crate::rules::Table;

/// Flags of `render`.
#[derive(Debug, Clone, Args)]
pub struct RenderArgs {
    /// Services to render. A selection of them is printed for reading and cannot be restored.
    #[command(flatten)]
    pub which: SelectionArgs,
    /// Names only, for completion scripts.
    #[command(flatten)]
    pub names: NamesArgs,
    /// IP family, ipv4 or ipv6
    ///
    /// The output is input for iptables-restore or for ip6tables-restore.
    #[arg(
        long,
        value_name = "FAMILY",
        value_enum,
        default_value = "ipv4",
        hide_possible_values = true,
        ignore_case = true
    )]
    pub family: FamilyArg,
    /// Print rules of this table only
    #[arg(long, value_name = "TABLE", value_enum, ignore_case = true)]
    pub table: Option<TableArg>,
    /// Print the partial restore since these manifests
    ///
    /// PATH is a file, a folder or `-`. Its rules are those in the kernel.
    #[arg(long, value_name = "PATH")]
    pub since: Option<PathBuf>,
    /// Chains that the partial restore contains
    #[arg(
        long,
        value_name = "SHAPE",
        value_enum,
        default_value = "changed-chains",
        requires = "since",
        hide_short_help = true
    )]
    pub partial_restore: PartialRestoreArg,
    /// Print the object of each chain and rule above it
    #[arg(long)]
    pub annotate: bool,
    /// Source of Services, EndpointSlices and the Node.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Values that no daemon derives.
    #[command(flatten)]
    pub preview: PreviewArgs,
    /// Configuration file that replaces the flags of `rules`.
    #[command(flatten)]
    pub file: RulesFileArgs,
    /// Settings that decide the content of rules.
    #[command(flatten)]
    pub rules: RulesArgs,
}

/// Values of manifests that a controller would report.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct PreviewArgs {
    /// Networks for load balancer IPs that manifests lack
    ///
    /// One CIDR for each IP family. `diff` uses them with --from-manifests. The default is for
    /// benchmarks of networks (RFC 2544 and RFC 5180): like those for documentation, its addresses
    /// are never routed, and it is large enough for many Services.
    #[arg(
        long,
        value_name = "CIDR[,CIDR]",
        default_value = "198.18.0.0/16,2001:2::/64",
        value_parser = addresses::of_each_family,
        hide_short_help = true
    )]
    pub manifests_load_balancer_cidr: PerFamily<IpNet>,
}

/// Value of `--family`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FamilyArg {
    /// Input for iptables-restore
    Ipv4,
    /// Input for ip6tables-restore
    Ipv6,
}

impl From<FamilyArg> for IpFamily {
    fn from(family: FamilyArg) -> Self {
        match family {
            FamilyArg::Ipv4 => Self::V4,
            FamilyArg::Ipv6 => Self::V6,
        }
    }
}

/// Value of `--table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableArg {
    /// Rules that reject or drop packets
    Filter,
    /// Rules that translate addresses
    Nat,
    /// The canary chain
    Mangle,
}

impl From<TableArg> for Table {
    fn from(table: TableArg) -> Self {
        match table {
            TableArg::Filter => Self::Filter,
            TableArg::Nat => Self::Nat,
            TableArg::Mangle => Self::Mangle,
        }
    }
}

/// Flags of `diff`.
///
/// Objects always stand for the desired side here, unlike in [`OriginArgs`](super::OriginArgs).
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// Services to compare. Differences of other Services are only counted.
    #[command(flatten)]
    pub which: SelectionArgs,
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
    pub from_manifests: Option<PathBuf>,
    /// Output format
    ///
    /// The default is text, or unified if KUBECTL_EXTERNAL_DIFF is set.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        ignore_case = true,
        help_heading = "Output"
    )]
    pub output: Option<DiffFormat>,
    /// Short for --output unified
    #[arg(long, conflicts_with = "output", help_heading = "Output")]
    pub unified: bool,
    /// Exit with code 1 for cosmetic differences as well
    #[arg(long, help_heading = "Output")]
    pub strict: bool,
    /// Source of the objects on the desired side.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Values that no daemon derives, for --from-manifests.
    #[command(flatten)]
    pub preview: PreviewArgs,
    /// Configuration file that replaces the flags of `rules`.
    #[command(flatten)]
    pub file: RulesFileArgs,
    /// Settings that decide the content of the desired rules.
    #[command(flatten)]
    pub rules: RulesArgs,
}

/// Value of `--output` of `diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// Effects on traffic, by service port
    Text,
    /// Rules as in diff -u, or shown by the program in KUBECTL_EXTERNAL_DIFF
    Unified,
    /// Machine-readable
    Json,
}
