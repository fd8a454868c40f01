//! Watches manifests, and reads a file again when it has changed. Keeps the last valid content of
//! each file.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::mem::replace;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::files::{ManifestError, ManifestFiles, STDIN, find};
use super::load::{ManifestErrors, load};
use super::merge::merge;
use super::parse::{FileContent, ParseOptions, parse};
use super::{ManifestOptions, Manifests, Validation};
use crate::telemetry::ManifestMetrics;
use crate::watch::file_events::{FileEvents, POLL_INTERVAL, QUIET_TIME};
use crate::watch::{Ingester, bounded};

/// Sends the objects of the manifests at `path`, and all of them again whenever they change;
/// standard input is read once. Runs until it is dropped.
///
/// If a file cannot be used, its last valid content, if any, stays in use. It is logged once, with
/// line and reason, and counted as long as it cannot be used. Nothing is sent while there are files
/// and none was ever valid, so that the rules of an earlier process stay; a directory without files
/// is an empty list. Fails only at the start: if the path does not exist or cannot be listed, or if
/// standard input is unusable.
pub(crate) async fn follow(
    path: PathBuf,
    options: ManifestOptions,
    metrics: &ManifestMetrics,
    mut ingester: Ingester,
) -> Result<Infallible, ManifestError> {
    let (mut logged, mut is_first) = (HashSet::new(), true);
    let mut send = |manifests: &Manifests| {
        log_notes(&manifests.notes, &mut logged);
        if replace(&mut is_first, false) && manifests.services.is_empty() {
            tracing::warn!(
                "the manifests have no Services: rules of Services that an earlier proxy wrote \
                 are removed"
            );
        }
        metrics.set_objects(manifests.undecodable, manifests.ignored_fields);
        manifests.send(&mut ingester);
    };
    if path == Path::new(STDIN) {
        // On another thread, since standard input may never end.
        let reading = spawn_blocking(move || load(&path, &options, Validation::Lenient)).await;
        let manifests = reading.map_err(|error| ManifestError::new(Path::new(STDIN), &error))?;
        let manifests = manifests.map_err(|ManifestErrors(errors)| first(errors))?;
        send(&manifests);
        return std::future::pending().await;
    }
    let root = std::path::absolute(&path).map_err(|error| ManifestError::new(&path, &error))?;
    find(&root)?;
    let mut watched = WatchedManifests::new(root);
    loop {
        let (start, unusable_before) = (Instant::now(), watched.unusable());
        watched = watched.look_on_thread(&path).await?;
        if unusable_before > 0 && watched.unusable() == 0 {
            tracing::info!("all manifests can be used again");
        }
        if let Some(manifests) = watched.store.changed(&options) {
            send(manifests);
        }
        metrics.set_files(watched.unusable());
        watched.events.changed(POLL_INTERVAL).await;
        // Limits the looks in a directory where programs rename files all the time.
        sleep_until(start + QUIET_TIME).await;
    }
}

/// Returns the error of standard input, which is one file.
fn first(errors: Vec<ManifestError>) -> ManifestError {
    let first = errors.into_iter().next();
    first.unwrap_or_else(|| ManifestError::new(Path::new(STDIN), &"cannot be used"))
}

/// Logs the notes that the previous manifests did not have.
fn log_notes(notes: &[String], logged: &mut HashSet<String>) {
    for problem in notes.iter().filter(|note| !logged.contains(*note)) {
        tracing::warn!(%problem, "problem in the manifests");
    }
    *logged = notes.iter().cloned().collect();
}

/// Logs a file or directory that cannot be used.
fn log_error(error: &ManifestError, has_content: bool) {
    let file = error.file.display();
    let ManifestError { line, reason, .. } = error;
    if has_content {
        let text = "cannot use a manifest; the last valid content stays in use";
        tracing::error!(%file, line, %reason, "{text}");
    } else {
        tracing::error!(%file, line, %reason, "cannot use a manifest; its objects are missing");
    }
}

struct WatchedManifests {
    root: PathBuf,
    store: Store,
    events: FileEvents,
    /// The path itself cannot be listed now.
    is_unlisted: bool,
}

impl WatchedManifests {
    fn new(root: PathBuf) -> Self {
        Self {
            root,
            store: Store::default(),
            events: FileEvents::new(),
            is_unlisted: false,
        }
    }

    /// Looks at the files on another thread, as to read large ones takes a while.
    async fn look_on_thread(mut self, path: &Path) -> Result<Self, ManifestError> {
        let look = spawn_blocking(move || {
            self.look();
            self
        });
        // Looking does not panic, so the error is a runtime that is shutting down.
        look.await.map_err(|error| ManifestError::new(path, &error))
    }

    fn look(&mut self) {
        let found = self.find_and_watch();
        self.is_unlisted = found.is_err();
        let found = match found {
            Ok(found) => found,
            Err(error) => return log_error(&error, self.store.has_content()),
        };
        for error in self.store.look(&found) {
            log_error(&error, self.store.has_content_of(&error.file));
        }
        if self.store.is_blocked() {
            tracing::warn!("no rules are written until a manifest is valid");
        }
    }

    /// Returns the number of files that cannot be used now. The path itself counts as one more
    /// while it cannot be listed.
    fn unusable(&self) -> usize {
        self.store.unusable_files() + usize::from(self.is_unlisted)
    }

    /// Finds the manifests and watches their directories. Repeats that while there are directories
    /// that were not watched before, so that no change between the two steps is missed.
    fn find_and_watch(&mut self) -> Result<ManifestFiles, ManifestError> {
        let mut found = find(&self.root)?;
        while self.events.watch(&found.directories) {
            found = find(&self.root)?;
        }
        Ok(found)
    }
}

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
