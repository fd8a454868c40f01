//! From objects and files to changes.

mod ingester;
mod manifests;
mod validation;
mod yaml;
