//! What to measure.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::shared::duration::duration;
use crate::shared::output::Output;
use crate::shared::subject::{Backend, Subject};

/// Measures what a node spends on its proxy.
#[derive(Debug, Parser)]
pub struct Args {
    /// Churns for so long (as `30m`) and samples memory, instead of measuring many sizes
    #[arg(long, value_parser = duration)]
    churn_for: Option<Duration>,
    /// Measures how often it syncs and how late changes are, instead of memory
    #[arg(long, conflicts_with = "churn_for")]
    pace: bool,
    /// Numbers of Services [default: 1,100,1000,10000; pace: 1000,10000; churn: 1000]
    #[arg(long, value_delimiter = ',')]
    services: Vec<usize>,
    /// Endpoints of each Service
    #[arg(long, default_value_t = 5)]
    pub endpoints: usize,
    /// The backend of iptables
    #[arg(long, default_value = "nft")]
    pub backend: Backend,
    /// Programs, with their flags [default: deltaproxy; pace: with deltaproxy-1s]
    #[arg(long = "program", value_delimiter = ',')]
    programs: Vec<Subject>,
    /// Endpoint changes per second, one phase each [default: 1,10,100; pace: 1,5,50,500; churn: 10]
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

/// Which of the three measurements is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Memory and CPU at each size.
    Sizes,
    /// Memory over a long time of mixed changes.
    Steady(Duration),
    /// Syncs and latency at each rate of changes.
    Pace,
}

impl Args {
    pub fn mode(&self) -> Mode {
        match self.churn_for {
            Some(time) => Mode::Steady(time),
            None if self.pace => Mode::Pace,
            None => Mode::Sizes,
        }
    }

    pub fn services(&self) -> Vec<usize> {
        self.or_default(
            &self.services,
            [&[1, 100, 1000, 10_000], &[1000], &[1000, 10_000]],
        )
    }

    pub fn programs(&self) -> Vec<Subject> {
        use Subject::{Deltaproxy, Deltaproxy1s};
        let paces = &[Deltaproxy, Deltaproxy1s];
        self.or_default(&self.programs, [&[Deltaproxy], &[Deltaproxy], paces])
    }

    pub fn rates(&self) -> Vec<u32> {
        self.or_default(&self.rates, [&[1, 10, 100], &[10], &[1, 5, 50, 500]])
    }

    /// The defaults are those for sizes, a churn and the pace.
    fn or_default<T: Clone>(&self, given: &[T], defaults: [&[T]; 3]) -> Vec<T> {
        let default = match self.mode() {
            Mode::Sizes => defaults[0],
            Mode::Steady(_) => defaults[1],
            Mode::Pace => defaults[2],
        };
        if given.is_empty() { default } else { given }.to_vec()
    }
}
