//! Metric of records of the history that were lost.

use prometheus::{IntCounterVec, Registry, Result};

use super::factory::{MetricFactory, OWN, count};

const QUEUE_FULL: &str = "queue_full";
const WRITE_FAILED: &str = "write_failed";

/// Metrics of the history; only with `--state-dir`.
#[derive(Debug, Clone)]
pub(crate) struct HistoryMetrics {
    lost: IntCounterVec,
}

impl HistoryMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::new(registry, OWN);
        let lost = own.counters(
            "history_lost_records_total",
            "Number of records and failed payloads that were not written to --state-dir",
            &["reason"],
        )?;
        for reason in [QUEUE_FULL, WRITE_FAILED] {
            lost.with_label_values(&[reason]);
        }
        Ok(Self { lost })
    }

    /// Counts a record that came while the disk was slow.
    pub(crate) fn queue_full(&self) {
        count(&self.lost, &[QUEUE_FULL]);
    }

    /// Counts a record that could not be written.
    pub(crate) fn write_failed(&self) {
        count(&self.lost, &[WRITE_FAILED]);
    }
}
