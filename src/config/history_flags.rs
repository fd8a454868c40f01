//! Flags of the commands that read the folder of `--state-dir`.

use std::path::PathBuf;

use clap::Args;

use super::tool_flags::{DaemonArgs, OutputArgs, PastTime};

/// Flags of `history`.
#[derive(Debug, Clone, Args)]
pub struct HistoryArgs {
    /// Only syncs that wrote rules of this Service, [NAMESPACE/]NAME
    #[arg(value_name = "SERVICE")]
    pub service: Option<String>,
    /// Folder of the records
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
    /// Only syncs since a time, or 30m before now
    #[arg(long, value_name = "TIME")]
    pub since: Option<PastTime>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `bundle`.
#[derive(Debug, Clone, Args)]
pub struct BundleArgs {
    /// File to write [default: deltaproxy-HOST-TIME.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Folder of the records, which are added
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Replace names of Services and nodes, and addresses
    #[arg(long)]
    pub redact: bool,
    /// KubeProxyConfiguration of the daemon
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}
