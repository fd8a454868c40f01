//! What to measure.

use std::time::Duration;

use clap::Parser;

use crate::shared::duration::duration;
use crate::shared::subject::Subject;
use crate::support::daemon::Backend;

/// Measures how long damaged rules stay broken.
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
        default_value = "kube-proxy,deltaproxy"
    )]
    pub programs: Vec<Subject>,
    /// Tries of each damage; kube-proxy has one, after which it is started again
    #[arg(long, default_value_t = 50)]
    pub tries: usize,
    /// How long a repair is waited for
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub patience: Duration,
    /// How long the program is left alone before its idle CPU is measured
    #[arg(long, default_value = "320s", value_parser = duration)]
    pub settle: Duration,
    /// For how long the idle CPU is measured; 0: not at all
    #[arg(long, default_value = "100s", value_parser = duration)]
    pub idle: Duration,
    /// Flag that cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}
