//! Flags of the commands that read the folder of `--state-dir`, and moments in the past, as they
//! have them.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use super::go::{GoDuration, InvalidDuration};
use super::tool_flags::{DaemonArgs, OutputArgs};

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

/// Moment in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastTime {
    Ago(Duration),
    /// Time in RFC 3339.
    At(Timestamp),
}

impl FromStr for PastTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        let duration: GoDuration = text.parse().map_err(|error: InvalidDuration| {
            format!("{error}\nhint: or give a time as in RFC 3339, like 2026-03-01T12:30:00Z")
        })?;
        let ago = duration.to_std();
        ago.map(Self::Ago)
            .ok_or_else(|| format!("must not be negative, got {text}"))
    }
}
