//! The last good content of every file.
//!
//! Apart from the watching because what a broken, deleted or unreadable file means can be told,
//! and tested, without waiting for anything.
//!
//! # Invariants
//!
//! Nothing is dropped because it could not be read: only a file that is certainly gone takes its
//! objects with it.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::ManifestOptions;
use super::error::ManifestError;
use super::files::Found;
use super::merge::{Manifests, merge};
use super::parse::{self, Broken, Content};

/// What is known of each file.
#[derive(Debug, Default)]
pub(super) struct Store {
    files: BTreeMap<PathBuf, File>,
}

#[derive(Debug, Default)]
struct File {
    /// A hash of the text read last, good or not; the same text is not read twice.
    seen: Option<u64>,
    good: Option<Content>,
}

/// What reading again has found.
#[derive(Debug, Default)]
pub(super) struct Reread {
    /// Some content is not what it was.
    pub(super) is_changed: bool,
    /// Files that could not be used, if their text is not the one last complained about.
    pub(super) errors: Vec<ManifestError>,
}

impl Store {
    /// Reads the files found, and drops the others.
    pub(super) fn reread(&mut self, found: &Found) -> Reread {
        let mut reread = Reread::default();
        let before = self.files.len();
        self.files.retain(|path, _| found.files.contains(path));
        reread.is_changed = self.files.len() != before;
        for path in &found.files {
            let file = self.files.entry(path.clone()).or_default();
            match file.reread(path) {
                Ok(is_changed) => reread.is_changed |= is_changed,
                Err(error) => reread.errors.extend(error),
            }
        }
        reread
    }

    /// Whether every file was good once, so that what is missing from all is really not wanted.
    pub(super) fn is_complete(&self) -> bool {
        self.files.values().all(|file| file.good.is_some())
    }

    /// All files together.
    pub(super) fn merge(&self, options: &ManifestOptions) -> Manifests {
        let good = self.files.iter();
        let good = good.filter_map(|(path, file)| Some((path.as_path(), file.good.as_ref()?)));
        merge(good, options)
    }
}

impl File {
    /// Whether the content changed; an error of `None` is one that was told before.
    fn reread(&mut self, path: &Path) -> Result<bool, Option<ManifestError>> {
        let text = fs::read(path);
        let seen = match &text {
            Ok(text) => hash(text),
            Err(error) => hash(error.to_string()),
        };
        let is_seen = self.seen.replace(seen) == Some(seen);
        if is_seen {
            return if text.is_ok() { Ok(false) } else { Err(None) };
        }
        let text = text.map_err(|error| ManifestError::new(path, &error))?;
        self.good = Some(self.read(&text).map_err(|broken| {
            // Not `?` on the error itself: the place belongs to it.
            ManifestError::broken(path, broken)
        })?);
        Ok(true)
    }

    /// An empty file where there was content is one that is about to be written.
    fn read(&self, text: &[u8]) -> Result<Content, Broken> {
        if text.is_empty() && self.good.is_some() {
            let reason = "is empty; delete the file to remove its objects".to_owned();
            return Err(Broken { line: None, reason });
        }
        parse::parse(text)
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
