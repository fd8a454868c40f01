//! What was measured, as it is kept in files. Times are in seconds, memory is in MiB.

use serde::{Deserialize, Serialize};

use crate::shared::cgroup::Peak;
use crate::shared::machine::Machine;
use crate::shared::subject::Subject;
use crate::support::daemon::Backend;

/// All of one call; of the two kinds, one has something.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub machine: Machine,
    pub sizes: Vec<Size>,
    pub steady: Vec<Steady>,
}

impl Report {
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            sizes: Vec::new(),
            steady: Vec::new(),
        }
    }
}

/// What was measured, at which size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Of {
    pub services: usize,
    pub endpoints: usize,
    pub backend: Backend,
    pub program: Subject,
}

/// One program at one size.
#[derive(Debug, Serialize, Deserialize)]
pub struct Size {
    pub of: Of,
    /// CPU until the first rules were in the kernel.
    pub start: Cpu,
    /// Once the start is over.
    pub rss: f64,
    pub peak_rss: f64,
    /// From its first start on an empty node.
    pub first_start: Peak,
    /// After a full restore over existing rules.
    pub rewrite: Peak,
    /// Of a restart over existing rules.
    pub restart: Peak,
    /// Nothing changes, then more and more.
    pub phases: Vec<Phase>,
    pub scrape: Scrape,
}

/// Some changes a second.
#[derive(Debug, Serialize, Deserialize)]
pub struct Phase {
    /// As asked for.
    pub rate: u32,
    /// What the API server took.
    pub changes_per_second: f64,
    pub syncs_per_second: f64,
    /// For each minute.
    pub cpu: Cpu,
    /// At the end.
    pub rss: f64,
    /// Since the start of the program.
    pub peak_rss: f64,
}

/// Seconds of a processor.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Cpu {
    pub own: f64,
    /// Of the programs that it started and waited for.
    pub children: f64,
}

/// `GET /metrics`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Scrape {
    pub bytes: usize,
    pub series: usize,
    /// Of the program, for one scrape over a connection of its own.
    pub cpu: f64,
}

/// Memory over a long time of changes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Steady {
    pub of: Of,
    pub rate: u32,
    pub samples: Vec<Memory>,
}

/// One sample of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Memory {
    /// Since the first change.
    pub seconds: f64,
    /// Made so far.
    pub changes: usize,
    /// Made so far.
    pub syncs: f64,
    pub rss: f64,
    pub peak_rss: f64,
}
