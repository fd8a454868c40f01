//! Stores the last valid content of each file, and reads a file again when it has changed.
//!
//! A change is used once the file has stayed the same for [`SETTLE_TIME`]: a program that writes a
//! file in place first truncates it, so that most of its objects are missing until it is done. A
//! file that was renamed into its place is complete, and is used at once.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use tokio::time::Instant;

use super::files::{ManifestError, ManifestFiles};
use super::merge::{Manifests, merge};
use super::parse::{FileContent, ParseOptions, parse};
use super::{ManifestOptions, Validation};
use crate::watch::bounded;

/// Time for which a changed or deleted file stays the same before the change is used. A program
/// that pauses longer while it writes is read too early; a longer time would delay all changes.
pub(super) const SETTLE_TIME: Duration = Duration::from_secs(1);

/// Maximum time until a file that never stays the same is used.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(60);

/// Last valid content of every file.
///
/// # Invariants
///
/// An object is removed only if its file no longer exists, or if new valid content of the file
/// lacks it. A file that has become unusable removes no objects.
#[derive(Debug, Default)]
pub(super) struct Store {
    files: BTreeMap<PathBuf, StoredFile>,
    /// The files were looked at before: then they were used as they were.
    has_looked: bool,
    /// Nothing has changed since [`Self::changed`] last returned manifests.
    is_current: bool,
    /// Manifests that [`Self::changed`] has returned last.
    returned: Option<Manifests>,
}

#[derive(Debug, Default)]
struct StoredFile {
    /// State in which the file was last used or rejected.
    used: FileState,
    /// Another state, in which the file is now.
    pending: Option<PendingState>,
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

/// State of a file that is not used yet.
#[derive(Debug)]
struct PendingState {
    state: FileState,
    /// First time that the file was in this state.
    since: Instant,
    /// First time that the file was not in the state in use.
    first: Instant,
}

impl Store {
    /// Looks at the files, and reads those that have changed and stayed the same since, or were
    /// `renamed` to or from these paths. Returns the errors that are new.
    pub(super) fn look(
        &mut self,
        found: &ManifestFiles,
        renamed: &HashSet<PathBuf>,
        now: Instant,
    ) -> Vec<ManifestError> {
        let mut errors = Vec::new();
        let states = self.states(found);
        for (path, file) in &mut self.files {
            if !states.contains_key(path) {
                file.pending = None;
            }
        }
        for (path, state) in states {
            let file = self.files.entry(path.clone()).or_default();
            if file.used == state {
                file.pending = None;
            } else if file.has_settled(&state, now)
                || !self.has_looked
                || is_renamed(&path, renamed)
            {
                match file.use_state(&path, state, now) {
                    Ok(is_changed) => self.is_current &= !is_changed,
                    Err(error) => errors.push(error),
                }
            }
        }
        self.files
            .retain(|_, file| file.used != FileState::Absent || file.pending.is_some());
        self.has_looked = true;
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

    /// Reports whether a file has changed, and the change is not used yet.
    pub(super) fn has_pending(&self) -> bool {
        self.files.values().any(|file| file.pending.is_some())
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
        self.returned.is_none() && (self.has_pending() || !self.files.is_empty() && is_invalid())
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
    /// Records a state other than the one in use. Reports whether the file has stayed the same for
    /// long enough.
    fn has_settled(&mut self, state: &FileState, now: Instant) -> bool {
        let pending = self.pending.get_or_insert_with(|| PendingState {
            state: state.clone(),
            since: now,
            first: now,
        });
        if pending.state != *state {
            (pending.state, pending.since) = (state.clone(), now);
        }
        now - pending.since >= SETTLE_TIME || self.is_overdue(now)
    }

    /// Reports whether the file has not stayed the same for so long that it is used as it is.
    fn is_overdue(&self, now: Instant) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| now - pending.first >= MAX_SETTLE_TIME)
    }

    /// Uses the content of a file in this state, unless that changes meanwhile. Reports whether the
    /// objects have changed. Fails if the content cannot be used.
    fn use_state(
        &mut self,
        path: &Path,
        state: FileState,
        now: Instant,
    ) -> Result<bool, ManifestError> {
        let parsed = match &state {
            FileState::Absent => Ok(None),
            FileState::Unusable(reason) => Err(ManifestError::new(path, reason)),
            FileState::Present { .. } => {
                let parsed = self.read(path);
                let state_now = FileState::of(path);
                if state_now != state && !self.is_overdue(now) {
                    self.has_settled(&state_now, now);
                    return Ok(false);
                }
                parsed.map(Some)
            }
        };
        (self.used, self.pending) = (state, None);
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

/// Reports whether a file was renamed; the paths are below canonical ones.
fn is_renamed(path: &Path, renamed: &HashSet<PathBuf>) -> bool {
    let parent = path
        .parent()
        .and_then(|parent| fs::canonicalize(parent).ok());
    let path = parent.zip(path.file_name());
    path.is_some_and(|(parent, name)| renamed.contains(&parent.join(name)))
}

#[cfg(test)]
#[path = "tests/store.rs"]
mod tests;
