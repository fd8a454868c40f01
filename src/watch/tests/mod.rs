//! From objects and files to changes.

mod completion;
mod ingester;
mod manifests;
mod validation;
mod yaml;
