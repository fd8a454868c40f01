//! What was measured.

use crate::subject::Subject;

/// One program. Times are in seconds, memory is in MiB.
#[derive(Debug)]
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

/// What happened between two moments.
#[derive(Debug)]
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
    /// Open at the end.
    pub watches: f64,
}
