//! The rows of the table, which are the plots, too.

use crate::figures::Run;

/// What is compared: smaller is better, always.
pub struct Quantity {
    pub name: &'static str,
    /// As a file name.
    pub slug: &'static str,
    pub unit: Unit,
    pub of: fn(&Run) -> Option<f64>,
}

/// How a value is written.
#[derive(Clone, Copy)]
pub enum Unit {
    Seconds,
    Mebibytes,
}

impl Unit {
    /// Three digits that say something.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 0.9995 => format!("{:.0} ms", value * 1e3),
            Self::Seconds if value < 99.95 => format!("{value:.1} s"),
            Self::Seconds => format!("{value:.0} s"),
            Self::Mebibytes => format!("{value:.0} MiB"),
        }
    }
}

/// All of them, in the order of a program's life.
pub const QUANTITIES: [Quantity; 13] = [
    quantity("start to first rules", "start", |run| {
        Some(run.first.seconds)
    }),
    quantity("full sync", "full-sync", |run| run.first.sync),
    quantity("restart with the rules there", "restart", |run| {
        Some(run.restart.seconds)
    }),
    quantity("sync of an endpoint change", "partial-sync", |run| {
        run.churn.sync_mean
    }),
    quantity("sync of a Service added", "service-added", |run| {
        run.service_added
    }),
    quantity("sync of a Service removed", "service-removed", |run| {
        run.service_removed
    }),
    quantity("programming, mean", "programming-mean", |run| {
        run.churn.programming_mean
    }),
    quantity("programming, p50", "programming-p50", |run| {
        run.programming_p50
    }),
    quantity("programming, p99", "programming-p99", |run| {
        run.programming_p99
    }),
    quantity("own CPU under change", "own-cpu", |run| {
        Some(run.churn.own_cpu)
    }),
    quantity("total CPU under change", "total-cpu", |run| {
        Some(run.churn.cpu())
    }),
    Quantity {
        unit: Unit::Mebibytes,
        ..quantity("RSS after change", "rss", |run| Some(run.rss))
    },
    Quantity {
        unit: Unit::Mebibytes,
        ..quantity("RSS, peak", "rss-peak", |run| Some(run.peak_rss))
    },
];

const fn quantity(name: &'static str, slug: &'static str, of: fn(&Run) -> Option<f64>) -> Quantity {
    Quantity {
        name,
        slug,
        unit: Unit::Seconds,
        of,
    }
}
