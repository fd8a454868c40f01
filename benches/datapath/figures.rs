//! Figures of a run, as they are kept in files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shared::latency::percentile;
use crate::shared::output::{self, Measured};
use crate::subject::Subject;

/// All runs of one file.
pub type Report = output::Report<Run>;

/// Address that a client connects to, by the place of its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    First,
    Middle,
    Last,
    /// No Service has it.
    Absent,
}

impl Target {
    pub const ALL: [Self; 4] = [Self::First, Self::Middle, Self::Last, Self::Absent];

    /// Name of its row, behind "to".
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "the first Service",
            Self::Middle => "the middle Service",
            Self::Last => "the last Service",
            Self::Absent => "no Service",
        }
    }
}

/// One subject with one number of Services.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    pub services: usize,
    pub subject: Subject,
    /// Seconds from the start of the program until all Services had rules.
    pub programmed_after: f64,
    /// Share of all CPUs that other programs took just before.
    pub other_load: f64,
    pub latency: BTreeMap<Target, Latency>,
    pub saturation: Saturation,
}

impl Measured for Run {
    type Key = (usize, Subject);

    fn key(&self) -> Self::Key {
        (self.services, self.subject)
    }
}

/// Duration of `connect()`, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Latency {
    pub p10: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    /// p50 of each round: how far they are apart is the noise of the machine.
    pub p50_of_rounds: Vec<f64>,
    pub connections: usize,
    pub failed: usize,
}

impl Latency {
    /// Figures of the connections of each round, in seconds.
    pub fn of(rounds: &[Vec<f64>], failed: usize) -> Self {
        let mut all = rounds.concat();
        all.sort_by(f64::total_cmp);
        let p50_of_rounds = rounds.iter().map(|round| {
            let mut sorted = round.clone();
            sorted.sort_by(f64::total_cmp);
            microseconds(&sorted, 50)
        });
        Self {
            p10: microseconds(&all, 10),
            p50: microseconds(&all, 50),
            p90: microseconds(&all, 90),
            p99: microseconds(&all, 99),
            p50_of_rounds: p50_of_rounds.collect(),
            connections: all.len(),
            failed,
        }
    }
}

/// Microseconds, with a decimal.
fn microseconds(sorted: &[f64], percent: usize) -> f64 {
    let seconds = percentile(sorted, percent).unwrap();
    (seconds * 1e7).round() / 10.0
}

/// Connections that several threads open without a pause, over all rounds.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub struct Saturation {
    pub connections: usize,
    pub failed: usize,
    pub seconds: f64,
    /// Seconds that all CPUs were busy, other programs included.
    pub cpu: f64,
    /// CPU seconds of the client's and the server's threads. The kernel does most of a packet's
    /// path, the node's rules included, in the thread that sends it.
    pub own_cpu: f64,
}

impl Saturation {
    /// New connections per second.
    pub fn rate(&self) -> f64 {
        self.connections as f64 / self.seconds
    }

    /// CPU time of one connection, in microseconds: of all CPUs, and of client and server.
    pub fn cpu_each(&self) -> (f64, f64) {
        let each = |seconds: f64| seconds * 1e6 / self.connections as f64;
        (each(self.cpu), each(self.own_cpu))
    }

    /// Adds a round.
    pub fn add(&mut self, round: Self) {
        self.connections += round.connections;
        self.failed += round.failed;
        self.seconds += round.seconds;
        self.cpu += round.cpu;
        self.own_cpu += round.own_cpu;
    }
}
