//! Metrics of manifests that cannot be used.

use prometheus::{IntGauge, Registry, Result};

use super::factory::MetricFactory;

/// Metrics of manifests. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct ManifestMetrics {
    unusable_files: IntGauge,
    skipped_objects: IntGauge,
}

impl ManifestMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::own(registry);
        Ok(Self {
            unusable_files: own.gauge(
                "unusable_manifest_files",
                "Number of manifest files that cannot be read or parsed now",
            )?,
            skipped_objects: own.gauge(
                "skipped_manifest_objects",
                "Number of objects of manifests that are skipped: fields have wrong types",
            )?,
        })
    }

    /// Records the number of files that cannot be used now.
    pub(crate) fn set_unusable_files(&self, count: usize) {
        self.unusable_files.set(as_gauge(count));
    }

    /// Records the number of objects that are skipped.
    pub(crate) fn set_skipped_objects(&self, count: usize) {
        self.skipped_objects.set(as_gauge(count));
    }

    /// Returns the number of files that cannot be used now.
    pub(crate) fn unusable_files(&self) -> i64 {
        self.unusable_files.get()
    }

    /// Returns the number of objects that are skipped.
    pub(crate) fn skipped_objects(&self) -> i64 {
        self.skipped_objects.get()
    }
}

fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
