//! Manifests instead of an API server: a file, a directory of files, or standard input.
//!
//! Objects of manifests are not validated, defaulted or selected yet: this module does what the
//! API server would have done. One difference remains: cluster IPs and node ports that are not set
//! follow from the names of their Services.
//!
//! The daemon skips what it cannot use. Commands report it and what an API server rejects.
//!
//! Files should be replaced by renaming, as the kubelet does in mounted volumes and most editors
//! do: a file that is written in place may be read while it is incomplete.

mod assumption;
mod complete;
mod defaults;
mod document;
mod document_kind;
mod endpoints;
mod files;
mod follow;
mod load;
mod locate;
mod merge;
mod notes;
mod pair;
mod parse;
mod pod_templates;
mod pools;
mod ranges;
mod raw;
mod store;
mod text;
mod validation;

use std::sync::Arc;

pub(crate) use assumption::{AssumedValue, assumption_lines};
pub(crate) use files::{ManifestError, exist};
pub(crate) use follow::follow;
pub(crate) use load::{ManifestErrors, load};
pub(crate) use merge::Manifests;
pub(crate) use pair::{ManifestPair, load_pair};
pub(crate) use ranges::{ManifestRanges, NotAPortRange};
pub(crate) use raw::RawObject;

/// Treatment of objects that an API server would reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// They are errors, and left out.
    Strict,
    /// As much of them as possible is used.
    Lenient,
}

/// Settings for reading manifests.
#[derive(Debug, Clone)]
pub(crate) struct ManifestOptions {
    /// Name of the Node of this host.
    pub node_name: Arc<str>,
    /// Ranges of values that are not set.
    pub ranges: ManifestRanges,
}

impl ManifestOptions {
    /// Returns settings with the default ranges.
    #[cfg(test)]
    pub(crate) fn new(node_name: Arc<str>) -> Self {
        Self {
            node_name,
            ranges: ManifestRanges::default(),
        }
    }
}
