//! What to measure.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use deltaproxy::testing::rules::Backend;
use serde::Serialize;

use crate::duration::duration;

/// The cost of payloads that end in the same rules.
#[derive(Debug, Parser)]
pub struct Args {
    /// Numbers of Services, each with five endpoints
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    pub services: Vec<usize>,
    /// Backends of iptables
    #[arg(long = "backend", value_delimiter = ',', default_value = "nft,legacy", value_parser = backend)]
    pub backends: Vec<Backend>,
    /// What to vary
    #[arg(
        long = "topic",
        value_delimiter = ',',
        default_value = "full,dispatch,bursts,apart,floor"
    )]
    pub topics: Vec<Topic>,
    /// Rounds of each topic; the median counts
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// No further round is begun if a topic would last longer (as `40s`)
    #[arg(long, default_value = "40s", value_parser = duration)]
    pub patience: Duration,
    /// Services of the floor on nft
    #[arg(long, default_value_t = 50_000)]
    pub floor_nft: usize,
    /// Services of the floor on legacy
    #[arg(long, default_value_t = 10_000)]
    pub floor_legacy: usize,
    /// Endpoint changes of the floor
    #[arg(long, default_value_t = 20)]
    pub changes: usize,
    /// Writes the figures to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    /// How many Services the floor of a backend is looked for at.
    pub fn floor_size(&self, backend: Backend) -> usize {
        match backend {
            Backend::Nft => self.floor_nft,
            Backend::Legacy => self.floor_legacy,
        }
    }
}

/// One choice, or what they all cannot get below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// Full payloads: `-S`, where headers stand, the order of Services
    Full,
    /// Services removed and added: edits of KUBE-SERVICES or all of it
    Dispatch,
    /// Services whose endpoints all moved: `-S`, where headers stand
    Bursts,
    /// A removal with an addition, or each by itself
    Apart,
    /// The product's sync beside the bare program
    Floor,
}

fn backend(text: &str) -> Result<Backend, String> {
    let all = [Backend::Nft, Backend::Legacy];
    let found = all.into_iter().find(|backend| backend.as_str() == text);
    found.ok_or_else(|| format!("no backend `{text}`: nft or legacy"))
}
