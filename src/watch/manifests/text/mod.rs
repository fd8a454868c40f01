//! Text of manifests: its documents, and the dialect of YAML that kubectl reads.

mod divide;
mod repetition;
mod scalar;
mod yaml;

pub(super) use divide::{DocumentText, decode, divide};
pub(super) use yaml::{CurrentLine, YamlError};
