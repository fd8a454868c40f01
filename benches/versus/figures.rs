//! What was measured, as it is kept in files.

use serde::{Deserialize, Serialize};

use crate::shared::output::{self, Measured};
use crate::shared::subject::Subject;
use crate::support::daemon::Backend;

/// All runs of one file.
pub type Report = output::Report<Run>;

/// One program at one size. Times are in seconds, memory is in MiB.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    pub services: usize,
    pub endpoints: usize,
    pub backend: Backend,
    pub program: Subject,
    /// Chains of endpoints in the kernel after the start.
    pub endpoint_chains: usize,
    /// On an empty node.
    pub first: Start,
    /// With the rules there.
    pub restart: Start,
    pub churn: Churn,
    /// From a change's request to its rules in the kernel.
    pub programming_p50: Option<f64>,
    pub programming_p99: Option<f64>,
    /// Syncs for one Service added, or removed.
    pub service_added: Option<f64>,
    pub service_removed: Option<f64>,
    /// After all changes.
    pub rss: f64,
    pub peak_rss: f64,
}

impl Measured for Run {
    type Key = (usize, usize, Backend, Subject);

    fn key(&self) -> Self::Key {
        (self.services, self.endpoints, self.backend, self.program)
    }
}

/// A start until both families are synced.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    pub seconds: f64,
    /// Mean of the syncs by then.
    pub sync: Option<f64>,
    pub own_cpu: f64,
    pub children_cpu: f64,
}

/// Endpoints that move at a steady rate.
#[derive(Debug, Serialize, Deserialize)]
pub struct Churn {
    pub changes: usize,
    /// How many of them the program has counted as programmed.
    pub seen: f64,
    pub syncs: f64,
    pub sync_mean: Option<f64>,
    pub programming_mean: Option<f64>,
    pub full_syncs: f64,
    pub own_cpu: f64,
    pub children_cpu: f64,
}

impl Churn {
    /// Own and children's.
    pub fn cpu(&self) -> f64 {
        self.own_cpu + self.children_cpu
    }
}
