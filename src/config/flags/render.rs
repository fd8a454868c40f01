//! Flags of `render`: what of the payload is printed, and how.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::sync::PartialRestoreArg;
use super::{AskedArgs, NamesArgs, RulesArgs, RulesFileArgs, SourceArgs};
use crate::net::IpFamily;
use crate::rules::Table;

/// Flags of `render`.
#[derive(Debug, Clone, Args)]
pub struct RenderArgs {
    /// Which Services; cut down to some, a payload is for reading.
    #[command(flatten)]
    pub which: AskedArgs,
    /// Only names.
    #[command(flatten)]
    pub names: NamesArgs,
    /// Whose rules
    #[arg(
        long,
        value_name = "FAMILY",
        value_enum,
        default_value = "ipv4",
        ignore_case = true
    )]
    pub family: FamilyArg,
    /// Only this table
    #[arg(long, value_name = "TABLE", value_enum, ignore_case = true)]
    pub table: Option<TableArg>,
    /// Print the partial payload for a kernel that holds what these manifests amount to
    #[arg(long, value_name = "PATH")]
    pub since: Option<PathBuf>,
    /// What a partial payload names: only changed chains, or what KEP-3453 says
    #[arg(
        long,
        value_name = "SHAPE",
        value_enum,
        default_value = "changed-chains",
        requires = "since"
    )]
    pub partial_restore: PartialRestoreArg,
    /// Say above each chain and rule which object it comes from
    #[arg(long)]
    pub annotate: bool,
    /// Where objects come from.
    #[command(flatten)]
    pub source: SourceArgs,
    /// What takes the place of flags.
    #[command(flatten)]
    pub file: RulesFileArgs,
    /// What shapes the rules.
    #[command(flatten)]
    pub rules: RulesArgs,
}

/// `--family`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FamilyArg {
    /// For iptables-restore
    Ipv4,
    /// For ip6tables-restore
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

/// `--table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableArg {
    /// What is refused or dropped
    Filter,
    /// What is sent where
    Nat,
    /// The canary
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
