//! What was measured, as it is kept in files.

use serde::{Deserialize, Serialize};

use crate::latency::percentile;
use crate::machine::Machine;
use crate::subject::{Backend, Subject};

/// Highest use of memory of a cgroup, in MiB.
pub struct Peak {
    /// Of the program, the programs that it starts, and what the kernel keeps for them.
    #[expect(dead_code, reason = "shared with another bench")]
    pub all: f64,
    /// Without what the kernel keeps, such as its copy of the rules.
    pub programs: f64,
}

/// All runs of one call.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub machine: Machine,
    pub runs: Vec<Run>,
}

/// One program under one number of users. Times are in seconds, memory is in MiB.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    pub services: usize,
    pub backend: Backend,
    pub program: Subject,
    pub users: usize,
    /// Services that were created, scaled and deleted.
    pub iterations: usize,
    /// From the first request to the last response.
    pub seconds: f64,
    /// From the request that creates or scales to its rules in the kernel.
    pub latency: Option<Latency>,
    /// Changes that the program has counted; each iteration has two.
    pub counted: usize,
    pub syncs: f64,
    pub own_cpu: f64,
    pub children_cpu: f64,
    /// Highest of the program itself.
    pub own_memory: f64,
    /// Highest of the program and those that it starts, since its start, without the kernel's copy
    /// of rules.
    pub peak_memory: f64,
}

/// Distribution of latencies in seconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Latency {
    pub average: f64,
    pub minimum: f64,
    pub median: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub maximum: f64,
}

impl Latency {
    /// Of sorted values; nothing if there are none.
    pub fn of(sorted: &[f64]) -> Option<Self> {
        Some(Self {
            average: sorted.iter().sum::<f64>() / sorted.len() as f64,
            minimum: *sorted.first()?,
            median: percentile(sorted, 0.5)?,
            p90: percentile(sorted, 0.9)?,
            p95: percentile(sorted, 0.95)?,
            p99: percentile(sorted, 0.99)?,
            maximum: *sorted.last()?,
        })
    }
}
