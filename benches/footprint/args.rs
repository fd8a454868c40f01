//! What to measure.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::shared::duration::duration;
use crate::shared::output::Output;
use crate::shared::subject::Subject;
use crate::support::daemon::Backend;

/// Measures what a node spends on its proxy.
#[derive(Debug, Parser)]
pub struct Args {
    /// Churns for so long (as `30m`) and samples memory, instead of measuring many sizes
    #[arg(long, value_parser = duration)]
    pub churn_for: Option<Duration>,
    /// Numbers of Services [default: 1,100,1000,10000; churn: 1000]
    #[arg(long, value_delimiter = ',')]
    services: Vec<usize>,
    /// Endpoints of each Service
    #[arg(long, default_value_t = 5)]
    pub endpoints: usize,
    /// The backend of iptables
    #[arg(long, default_value = "nft")]
    pub backend: Backend,
    /// Programs, with their flags
    #[arg(long = "program", value_delimiter = ',', default_value = "deltaproxy")]
    pub programs: Vec<Subject>,
    /// Endpoint changes per second, one phase each [default: 1,10,100; churn: 10]
    #[arg(long = "rate", value_delimiter = ',')]
    rates: Vec<u32>,
    /// How long each phase lasts (as `15s`)
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub phase: Duration,
    #[command(flatten)]
    pub output: Output,
    /// Writes a plot (SVG) of each churn into this folder
    #[arg(long)]
    pub plots: Option<PathBuf>,
}

impl Args {
    pub fn services(&self) -> Vec<usize> {
        self.or_default(&self.services, &[1, 100, 1000, 10_000], 1000)
    }

    pub fn rates(&self) -> Vec<u32> {
        self.or_default(&self.rates, &[1, 10, 100], 10)
    }

    /// Returns the given values; by default `sizes`, or `churn` for a lasting churn.
    fn or_default<T: Copy>(&self, given: &[T], sizes: &[T], churn: T) -> Vec<T> {
        match self.churn_for {
            _ if !given.is_empty() => given.to_vec(),
            Some(_) => vec![churn],
            None => sizes.to_vec(),
        }
    }
}
