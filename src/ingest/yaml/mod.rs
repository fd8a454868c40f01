//! YAML of manifests and of the configuration file: documents, and the dialect that Kubernetes
//! reads.
//!
//! `serde-saphyr` is not used to read them. As lenient as its options permit, version 2.0 still
//! rejects quoted text whose continuation lines are not indented, and tabs in `[]`, and keeps the
//! keys `yes` and `n`, which kubectl turns into `true` and `false`. A test fails when that has
//! changed.

mod divide;
mod reader;

pub(crate) use divide::{DocumentText, decode, divide};
pub(crate) use reader::{RepeatedKey, SyntaxError, integer};

#[cfg(test)]
mod tests;
