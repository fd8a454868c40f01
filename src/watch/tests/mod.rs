//! From objects and files to changes.

mod completion;
mod follow;
mod ingester;
mod manifests;
mod server_version;
mod validation;
mod yaml;
