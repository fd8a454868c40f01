//! Manifests instead of an API server: a file, a directory of files, or standard input.
//!
//! An API server sets defaults, and sends the objects that a proxy selects; this module does the
//! same with manifests. With [`Validation::Strict`], which the daemon never uses, it also rejects
//! objects with fields that cannot be used: unknown ones, and those with unusable values.
//! Values that an API server or a controller would set are assumed:
//!
//! | value that is not set | assumed by |
//! |---|---|
//! | cluster IP, node port, health check node port | the daemon and all commands |
//! | load balancer IP | all commands |
//! | endpoints | `diff --from-manifests` |
//!
//! Terms for objects and files that are not used as written:
//!
//! | term | meaning |
//! |---|---|
//! | ignored | object of another kind, or field without effect |
//! | undecodable | object that is not used: a field that the proxy reads has a wrong type |
//! | invalid | object with a field that cannot be used; only with [`Validation::Strict`] |
//! | unusable | file that cannot be read or parsed |
//!
//! A field of a wrong type that the proxy does not read is ignored. With [`Validation::Strict`], an
//! object with a field of a wrong type is invalid, whether the proxy reads the field or not; of a
//! Node, only the fields that the proxy reads are checked. The daemon continues to use the last
//! valid state of an undecodable object, and the last valid content of an unusable file.
//!
//! The daemon uses a file at once that was renamed into its place. It uses another change once
//! nothing in the directories has changed for a second, after ten seconds at most: a program that
//! pauses longer while it writes a file in place should rename it instead.

mod files;
mod fill_in;
mod follow;
mod load;
mod merge;
mod parse;
mod validation;

pub(crate) use files::{ManifestError, ManifestErrorScope, check_path};
#[cfg(test)]
pub(crate) use fill_in::CLUSTER_IPS;
pub(crate) use fill_in::{AssumedValueKind, assumption_lines};
pub(crate) use follow::follow;
pub(crate) use load::{ManifestErrors, load, load_compared, load_complete};
pub(crate) use merge::{ManifestOptions, Manifests};
pub(crate) use parse::WrittenObjects;
pub(crate) use validation::Validation;
