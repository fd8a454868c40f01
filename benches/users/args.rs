//! What to measure.

use std::path::PathBuf;

use clap::Parser;

use crate::shared::output::Output;
use crate::shared::subject::Subject;
use crate::support::daemon::Backend;

/// Measures programs under the load of virtual users.
#[derive(Debug, Parser)]
pub struct Args {
    /// Numbers of Services that exist besides
    #[arg(long, value_delimiter = ',', default_value = "1000")]
    pub services: Vec<usize>,
    /// Endpoints of each of them
    #[arg(long, default_value_t = 5)]
    pub endpoints: usize,
    /// Numbers of users at the same time
    #[arg(long, value_delimiter = ',', default_value = "25,50,100")]
    pub users: Vec<usize>,
    /// Iterations of all users together: ten for each, unless given
    #[arg(long)]
    pub iterations: Option<usize>,
    /// Backend of iptables
    #[arg(long, default_value = "nft")]
    pub backend: Backend,
    /// Programs, with their flags
    #[arg(
        long = "program",
        value_delimiter = ',',
        default_value = "kube-proxy,kube-proxy-nftables,deltaproxy"
    )]
    pub programs: Vec<Subject>,
    #[command(flatten)]
    pub output: Output,
    /// Writes plots (SVG) into this folder
    #[arg(long)]
    pub plots: Option<PathBuf>,
}
