//! What was measured, as it is kept in files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shared::output::{self, Measured};
use crate::subject::Subject;

/// All runs of one file.
pub type Report = output::Report<Run>;

/// One program. Times are in seconds, memory is in MiB.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    pub program: Subject,
    pub watchers: usize,
    pub services: usize,
    pub endpoints: usize,
    /// All processes start at once.
    pub start: Phase,
    pub churn: Phase,
    /// How many changes that was.
    pub changes: usize,
    pub idle: Phase,
    /// The server is killed and started again.
    pub restart: Phase,
    /// Of the fleet when idle, all together.
    pub fleet_rss: f64,
    /// The sum of the largest that each had until then.
    pub fleet_peak_rss: f64,
    /// The server's, before it was restarted.
    pub peak_rss: f64,
}

impl Measured for Run {
    type Key = (usize, usize, usize, Subject);

    fn key(&self) -> Self::Key {
        let (services, endpoints) = (self.services, self.endpoints);
        (services, endpoints, self.watchers, self.program)
    }
}

/// What happened between two moments.
#[derive(Debug, Serialize, Deserialize)]
pub struct Phase {
    pub seconds: f64,
    pub server_cpu: f64,
    pub store_cpu: f64,
    /// Without the stand-ins.
    pub fleet_cpu: f64,
    /// The server's at the end.
    pub server_rss: f64,
    /// Bytes from the server, and to it, as the kernel counts them.
    pub sent: u64,
    pub received: u64,
    /// Most bytes sent in a second, where that was looked at.
    pub most_sent: Option<f64>,
    pub accepted: u64,
    pub requests: f64,
    pub finished: BTreeMap<String, f64>,
    /// Open at the end.
    pub watches: f64,
    pub events: f64,
}
