//! Manifests instead of an API server: a file, a directory of files, or standard input.
//!
//! An API server validates objects, sets defaults and selects; this module does the same with
//! manifests. The difference is that values that are not set are assumed:
//!
//! | value | assumed |
//! |---|---|
//! | cluster IP, node port, health check node port | always, by the name of the Service |
//! | load balancer IP | by commands |
//! | endpoints, number of a named port without a Pod template | by `diff` |
//!
//! Objects and files that are not used as written:
//!
//! | term | meaning |
//! |---|---|
//! | ignored | object of another kind, or field without effect |
//! | reduced | object that is used without its ignored fields |
//! | undecodable | object with a field of a wrong type; the daemon uses its last state instead |
//! | invalid | object that an API server would reject; only with [`Validation::Strict`] |
//! | unusable | file that cannot be read or parsed |
//!
//! Files should be replaced by renaming, as the kubelet does in mounted volumes and most editors
//! do: a file that is written in place may be read while it is incomplete.

mod assumption;
mod document;
mod document_kind;
mod endpoints;
mod files;
mod fill_in;
mod follow;
mod kustomization;
mod load;
mod locate;
mod merge;
mod notes;
mod options;
mod pair;
mod parse;
mod pod_templates;
mod pools;
mod raw;
mod store;
mod template_matches;
mod text;
mod validation;

pub(crate) use assumption::{AssumedValue, assumption_lines};
pub(crate) use files::{ManifestError, ManifestErrorScope, exist};
pub(crate) use follow::follow;
pub(crate) use load::{ManifestErrors, load};
pub(crate) use merge::Manifests;
pub(crate) use options::{ManifestOptions, Validation};
pub(crate) use pair::{ManifestPair, load_pair};
pub(crate) use pools::{ManifestRanges, NotAPortRange};
pub(crate) use raw::{RawKind, RawObject};
pub(crate) use template_matches::TemplateMatches;
