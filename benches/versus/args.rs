//! What to measure.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::shared::duration::duration;
use crate::shared::output::Output;
use crate::shared::subject::Subject;
use crate::support::daemon::Backend;

/// Measures kube-proxy and deltaproxy in the same run.
#[derive(Debug, Parser)]
pub struct Args {
    /// Numbers of Services
    #[arg(long, value_delimiter = ',', default_value = "1000")]
    pub services: Vec<usize>,
    /// Endpoints of each Service
    #[arg(long, default_value_t = 5)]
    pub endpoints: usize,
    /// Backends of iptables
    #[arg(long = "backend", value_delimiter = ',', default_value = "nft")]
    pub backends: Vec<Backend>,
    /// Programs, with their flags
    #[arg(
        long = "program",
        value_delimiter = ',',
        default_value = "kube-proxy,deltaproxy,deltaproxy-1s"
    )]
    pub programs: Vec<Subject>,
    /// Endpoint changes per second
    #[arg(long, default_value_t = 5)]
    pub rate: u32,
    /// How long each phase of changes lasts (as `30s`)
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub phase: Duration,
    #[command(flatten)]
    pub output: Output,
    /// Writes plots (SVG) into this folder
    #[arg(long)]
    pub plots: Option<PathBuf>,
}
