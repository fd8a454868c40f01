//! Arguments of the benchmark.

use std::time::Duration;

use clap::Parser;

use crate::shared::duration::duration;
use crate::shared::output::Output;
use crate::subject::Subject;

/// Measures new connections through the rules of deltaproxy and kube-proxy.
#[derive(Debug, Parser)]
pub struct Args {
    /// Numbers of Services, of one endpoint each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100,1000,5000,10000,30000,50000"
    )]
    pub services: Vec<usize>,
    /// Programs, with their backend and shape of the rules
    #[arg(
        long = "subject",
        value_delimiter = ',',
        default_value = "flat-nft,tree-nft,kube-proxy-nft,flat-legacy,tree-legacy,kube-proxy-legacy,kube-proxy-nftables"
    )]
    subjects: Vec<Subject>,
    /// Largest number of Services of a subject (as `kube-proxy-nft=10000`)
    #[arg(long = "limit", value_delimiter = ',', value_parser = limit)]
    limits: Vec<(Subject, usize)>,
    /// Rounds, in each of which all subjects have their turn
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Timed connections to each target in a round
    #[arg(long, default_value_t = 2000)]
    pub connects: usize,
    /// Threads that connect without a pause when saturation is measured
    #[arg(long, default_value_t = 4)]
    pub threads: u8,
    /// How long saturation is measured in a round (as `2s`)
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub saturation: Duration,
    /// How long a program may take until all Services have rules
    #[arg(long, default_value = "1h", value_parser = duration)]
    pub patience: Duration,
    #[command(flatten)]
    pub output: Output,
    /// Writes the plots and the tables of `deploy/docs`
    #[arg(long)]
    pub write: bool,
}

impl Args {
    /// Subjects that are measured with this many Services.
    pub fn subjects(&self, services: usize) -> Vec<Subject> {
        let mut subjects = self.subjects.clone();
        subjects.retain(|subject| {
            let mut limits = self.limits.iter().filter(|(of, _)| of == subject);
            limits.all(|(_, limit)| services <= *limit)
        });
        subjects
    }
}

fn limit(text: &str) -> Result<(Subject, usize), String> {
    let (subject, services) = text.split_once('=').ok_or("must be SUBJECT=SERVICES")?;
    let subject = clap::ValueEnum::from_str(subject, false)?;
    let services = services.parse();
    Ok((subject, services.map_err(|error| format!("{error}"))?))
}
