//! Settings for reading manifests.

use std::sync::Arc;

use super::pools::ManifestRanges;
use super::validation::ObjectChecks;

/// Treatment of objects that an API server would reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// Does not use such objects, and reports them as errors.
    Strict,
    /// Uses such objects without their ignored fields, as the daemon always does.
    Lenient,
}

/// Settings for reading manifests.
#[derive(Debug, Clone)]
pub(crate) struct ManifestOptions {
    /// Name of the Node of this host.
    pub node_name: Arc<str>,
    /// Ranges of the values that are assumed.
    pub ranges: ManifestRanges,
}

impl ManifestOptions {
    /// Returns the checks of objects for a command or the daemon.
    pub(super) const fn checks(&self, validation: Validation) -> ObjectChecks {
        match validation {
            Validation::Strict => ObjectChecks::Strict(self.ranges.node_ports),
            Validation::Lenient => ObjectChecks::Lenient,
        }
    }

    /// Returns settings with the default ranges.
    #[cfg(test)]
    pub(crate) fn new(node_name: Arc<str>) -> Self {
        Self {
            node_name,
            ranges: ManifestRanges::default(),
        }
    }
}
