//! What was measured, as it is kept in files.

use serde::{Deserialize, Serialize};

use crate::shared::latency::percentile;
use crate::shared::output::{self, Measured};
use crate::shared::subject::Subject;
use crate::support::daemon::Backend;

/// All runs of one file.
pub type Report = output::Report<Run>;

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

impl Measured for Run {
    type Key = (usize, Backend, usize, Subject);

    fn key(&self) -> Self::Key {
        (self.services, self.backend, self.users, self.program)
    }
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
            median: percentile(sorted, 50)?,
            p90: percentile(sorted, 90)?,
            p95: percentile(sorted, 95)?,
            p99: percentile(sorted, 99)?,
            maximum: *sorted.last()?,
        })
    }
}
