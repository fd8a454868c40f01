//! Stores the last valid content of each file, and reads a file again when it has changed.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::files::{ManifestError, ManifestFiles};
use super::merge::{Manifests, merge};
use super::parse::{FileContent, ParseOptions, parse};
use super::{ManifestOptions, Validation};
use crate::watch::bounded;

/// Last valid content of every file.
///
/// # Invariants
///
/// An object is removed only if its file no longer exists, or if new valid content of the file
/// lacks it. A file that has become unusable removes no objects.
#[derive(Debug, Default)]
pub(super) struct Store {
    files: BTreeMap<PathBuf, StoredFile>,
    /// A program has written to a file while that was last read.
    is_incomplete: bool,
    /// Nothing has changed since [`Self::changed`] last returned manifests.
    is_current: bool,
    /// Manifests that [`Self::changed`] has returned last.
    returned: Option<Manifests>,
}

#[derive(Debug, Default)]
struct StoredFile {
    /// State in which the file was last used or rejected.
    used: FileState,
    valid: Option<FileContent>,
    /// The file cannot be read or parsed in the state that was last used.
    is_unusable: bool,
}

/// State of a file, which shows whether it has changed without reading it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum FileState {
    #[default]
    Absent,
    Present {
        device: u64,
        inode: u64,
        bytes: u64,
        /// Last modification of the content, in seconds and nanoseconds.
        modified: (i64, i64),
        /// Last change of content or metadata, which programs cannot set.
        changed: (i64, i64),
    },
    /// The entry cannot be read, with the reason.
    Unusable(String),
}

impl FileState {
    fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(metadata) => Self::Present {
                device: metadata.dev(),
                inode: metadata.ino(),
                bytes: metadata.size(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Absent,
            Err(error) => Self::Unusable(error.to_string()),
        }
    }
}

impl Store {
    /// Looks at the files, and reads those that have changed. Returns the errors that are new.
    pub(super) fn look(&mut self, found: &ManifestFiles) -> Vec<ManifestError> {
        let mut errors = Vec::new();
        self.is_incomplete = false;
        for (path, state) in self.states(found) {
            let file = self.files.entry(path.clone()).or_default();
            if file.used == state {
                continue;
            }
            match file.use_state(&path, state) {
                Ok(true) => self.is_current = false,
                Ok(false) => self.is_incomplete = true,
                Err(error) => errors.push(error),
            }
        }
        self.files.retain(|_, file| file.used != FileState::Absent);
        errors
    }

    /// Returns the state of each file that was found, or was there before.
    fn states(&self, found: &ManifestFiles) -> BTreeMap<PathBuf, FileState> {
        let unusable = found.unusable.iter();
        let unusable = unusable.map(|one| (&one.file, FileState::Unusable(one.reason.clone())));
        let files = found.files.iter();
        let files = files.map(|path| (path, FileState::of(path)));
        // The target of a link may be missing for a while, and with it the files below the link.
        let is_unusable =
            |path: &Path| found.unusable.iter().any(|one| path.starts_with(&one.file));
        let absent = self.files.keys().filter(|path| !is_unusable(path));
        let absent = absent.map(|path| (path, FileState::Absent));
        let states = absent.chain(unusable).chain(files);
        states.map(|(path, state)| (path.clone(), state)).collect()
    }

    pub(super) fn has_content(&self) -> bool {
        self.returned.is_some() && self.files.values().any(|file| file.valid.is_some())
    }

    /// Reports whether this file, or one below this path, was valid before, so that its objects
    /// stay in use.
    pub(super) fn has_content_of(&self, path: &Path) -> bool {
        let mut files = self.files.iter();
        files.any(|(file, stored)| file.starts_with(path) && stored.valid.is_some())
    }

    /// Returns the number of files that cannot be used now, including those whose last valid
    /// content stays in use.
    pub(super) fn unusable_files(&self) -> usize {
        self.files.values().filter(|file| file.is_unusable).count()
    }

    /// Reports whether the first list is blocked, because no file was ever valid, or because a
    /// program has written to one while it was read.
    pub(super) fn is_blocked(&self) -> bool {
        let is_invalid = || self.files.values().all(|file| file.valid.is_none());
        self.returned.is_none() && (self.is_incomplete || !self.files.is_empty() && is_invalid())
    }

    /// Returns the objects of all files, if they have changed.
    ///
    /// An unusable file does not affect other files, unless no file is valid at the start: then
    /// nothing is returned, since all rules of an earlier process would be removed.
    pub(super) fn changed(&mut self, options: &ManifestOptions) -> Option<&Manifests> {
        if self.is_current || self.is_blocked() {
            return None;
        }
        self.is_current = true;
        let valid = self.files.iter();
        let valid = valid.filter_map(|(path, file)| Some((path.as_path(), file.valid.as_ref()?)));
        let before = self.returned.as_ref();
        let manifests = merge(valid, options, Validation::Lenient, before);
        self.returned = Some(manifests);
        self.returned.as_ref()
    }
}

impl StoredFile {
    /// Uses the content of a file in this state. Reports whether it does: not if the file changes
    /// while it is read. Fails if the content cannot be used.
    fn use_state(&mut self, path: &Path, state: FileState) -> Result<bool, ManifestError> {
        let parsed = match &state {
            FileState::Absent => Ok(None),
            FileState::Unusable(reason) => Err(ManifestError::new(path, reason)),
            FileState::Present { .. } => self.read(path).map(Some),
        };
        if matches!(state, FileState::Present { .. }) && FileState::of(path) != state {
            return Ok(false);
        }
        self.used = state;
        self.is_unusable = parsed.is_err();
        self.valid = parsed?;
        Ok(true)
    }

    /// Reads a file. One without text is an error: a program may be writing it.
    fn read(&self, path: &Path) -> Result<FileContent, ManifestError> {
        let text = bounded::read_regular_file(path, bounded::MAX_MANIFEST_BYTES);
        let text = text.map_err(|error| ManifestError::new(path, &error))?;
        if text.trim_ascii().is_empty() {
            let reason = match self.valid {
                Some(_) => "is empty; delete the file to remove its objects",
                None => "is empty; a comment in it shows that this is intended",
            };
            return Err(ManifestError::new(path, &reason));
        }
        parse(path, &text, ParseOptions::LENIENT)
    }
}

#[cfg(test)]
#[path = "tests/store.rs"]
mod tests;
