//! What to measure.

use std::time::Duration;

use clap::Parser;

use crate::shared::duration::duration;
use crate::subject::Subject;

/// Measures what an API server does for many nodes at once.
#[derive(Debug, Parser)]
pub struct Args {
    /// How many processes of each program
    #[arg(long, default_value_t = 200)]
    pub watchers: usize,
    /// Number of Services
    #[arg(long, default_value_t = 500)]
    pub services: usize,
    /// Endpoints of each Service
    #[arg(long, default_value_t = 5)]
    pub endpoints: usize,
    /// Programs, one after the other
    #[arg(
        long = "program",
        value_delimiter = ',',
        default_value = "none,kube-proxy,deltaproxy"
    )]
    pub programs: Vec<Subject>,
    /// Endpoint changes per second
    #[arg(long, default_value_t = 5)]
    pub rate: u32,
    /// How long changes are made (as `30s`); then twice as long none
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub phase: Duration,
    /// Flag that cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}
