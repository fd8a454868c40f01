//! Settings for reading manifests.

use std::sync::Arc;

use super::pools::ManifestRanges;

/// Settings for reading manifests.
#[derive(Debug, Clone)]
pub(crate) struct ManifestOptions {
    /// Name of the Node of this host.
    pub node_name: Arc<str>,
    /// Ranges of the values that are assumed.
    pub ranges: ManifestRanges,
}

#[cfg(test)]
impl ManifestOptions {
    /// Returns settings with the default ranges.
    pub(crate) fn new(node_name: Arc<str>) -> Self {
        Self {
            node_name,
            ranges: ManifestRanges::default(),
        }
    }
}
