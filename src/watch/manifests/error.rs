//! Why manifests could not be read.
//!
//! Apart because one-shot commands stop at it and `run` only logs it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::load::STDIN;
use super::parse::Broken;

/// One file or directory that could not be used. Any values are legal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", shown(.file), line_shown(*.line))]
pub struct ManifestError {
    /// Which one; `-` for standard input.
    pub file: PathBuf,
    /// Where in it, counted from 1, if it is about its text.
    pub line: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

impl ManifestError {
    pub(super) fn broken(file: &Path, broken: Broken) -> Self {
        Self {
            file: file.to_owned(),
            line: broken.line,
            reason: broken.reason,
        }
    }

    pub(super) fn new(file: &Path, reason: &dyn fmt::Display) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            reason: reason.to_string(),
        }
    }
}

fn line_shown(line: Option<u64>) -> String {
    line.map(|line| format!(" line {line}")).unwrap_or_default()
}

/// The file's name, or what `-` stands for.
fn shown(file: &Path) -> String {
    if file == Path::new(STDIN) {
        "standard input".to_owned()
    } else {
        format!("`{}`", file.display())
    }
}
