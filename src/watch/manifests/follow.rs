//! Watches manifests, and reads them again when they change.
//!
//! Separate from [`store`](super::store), which reads the files and decides what has changed,
//! without watching or waiting.

use std::collections::{BTreeSet, HashSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::events::{DirectoryChanges, DirectoryWatch};
use super::files::{ManifestError, ManifestFiles, STDIN, find};
use super::load::{ManifestErrors, load};
use super::store::{Completeness, FileReading, Store};
use super::{ManifestOptions, Manifests, Validation};
use crate::model::Kind;
use crate::telemetry::ManifestMetrics;
use crate::watch::Ingester;
use crate::watch::file_events::{POLL_INTERVAL, QuietWait};
use crate::watch::mass_deletion::{MassDeletion, ObjectCount};

/// Sends the objects of the manifests at `path`, and all of them again whenever they change;
/// standard input is read once. Runs until it is dropped.
///
/// If a file cannot be used, its last valid content, if any, stays in use. It is logged once, with
/// line and reason, and counted as long as it cannot be used. Nothing is sent while there are files
/// and none was ever valid, so that the rules of an earlier process stay; a directory without files
/// is an empty list.
///
/// # Errors
///
/// Only at the start: the path does not exist or cannot be listed, or standard input is unusable.
pub(crate) async fn follow(
    path: PathBuf,
    options: ManifestOptions,
    metrics: &ManifestMetrics,
    mut ingester: Ingester,
) -> Result<Infallible, ManifestError> {
    let (mut logged, mut counts) = (HashSet::new(), ObjectCounts::default());
    let mut send = |manifests: &Manifests| {
        log_notes(&manifests.notes, &mut logged);
        counts.listed(manifests);
        metrics.set_skipped_objects(manifests.undecodable_objects());
        metrics.set_ignored_fields(manifests.ignored_fields);
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
        let unusable_before = watched.unusable();
        watched = watched.read_on_thread(&path).await?;
        if unusable_before > 0 && watched.unusable() == 0 {
            tracing::info!("all manifests can be used again");
        }
        if let Some(manifests) = watched.store.changed(&options) {
            send(&manifests);
        }
        metrics.set_unusable_files(watched.unusable());
        watched.wait().await;
    }
}

/// Numbers of objects in the manifests.
#[derive(Default)]
struct ObjectCounts {
    services: ObjectCount,
    endpoint_slices: ObjectCount,
    /// The manifests were read once.
    has_listed: bool,
}

impl ObjectCounts {
    /// Logs a warning if most objects are gone, or if there is no Service at the start: then the
    /// rules that an earlier process wrote are removed.
    fn listed(&mut self, manifests: &Manifests) {
        let now = Instant::now();
        let [services, slices] =
            [Kind::Service, Kind::EndpointSlice].map(|kind| manifests.in_use(kind));
        let kinds = [
            (Kind::Service, self.services.listed(services, now)),
            (
                Kind::EndpointSlice,
                self.endpoint_slices.listed(slices, now),
            ),
        ];
        for (kind, deletion) in kinds {
            if let Some(MassDeletion { before, after }) = deletion {
                tracing::warn!(
                    kind = kind.as_str(),
                    before,
                    after,
                    "most objects of this kind are gone from the manifests: their rules are \
                     removed; if that was not intended, restore the files"
                );
            }
        }
        if !self.has_listed && services == 0 {
            tracing::warn!(
                "the manifests have no Services: rules of Services that an earlier proxy wrote \
                 are removed"
            );
        }
        self.has_listed = true;
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

/// Logs a file that is used although a program may still be writing it.
fn log_open_file(file: &Path) {
    tracing::warn!(
        file = %file.display(),
        "a manifest was modified and not closed for a long time: it is used as it is now; write a \
         temporary file and rename it",
    );
}

/// Watched manifests and their content.
struct WatchedManifests {
    root: PathBuf,
    store: Store,
    /// `None` before the path was listed.
    found: Option<ManifestFiles>,
    /// `None` if there are no notifications of changes, and the files are only polled.
    watch: Option<DirectoryWatch>,
    /// Nothing has changed since the files were read, as far as events show.
    is_poll: bool,
    /// Last logged error of the path itself.
    logged_error: Option<ManifestError>,
    /// The warning was logged that nothing is sent before a manifest is valid.
    has_logged_block: bool,
}

impl WatchedManifests {
    fn new(root: PathBuf) -> Self {
        let watch = DirectoryWatch::new()
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot watch manifests for changes; polling every minute");
            })
            .ok();
        Self {
            root,
            store: Store::default(),
            found: None,
            watch,
            is_poll: false,
            logged_error: None,
            has_logged_block: false,
        }
    }

    /// Reads on another thread, as large manifests take a while.
    async fn read_on_thread(mut self, path: &Path) -> Result<Self, ManifestError> {
        let reading = spawn_blocking(move || {
            self.read(Instant::now());
            self
        });
        // FileReading does not panic, so the error is a runtime that is shutting down.
        reading
            .await
            .map_err(|error| ManifestError::new(path, &error))
    }

    fn read(&mut self, now: Instant) {
        let errors = match self.changed_files(now) {
            Some(files) => self.read_files(&files, now),
            None => match self.find_and_watch() {
                Ok(found) => self.read_all(found, now),
                Err(error) => {
                    if self.logged_error.as_ref() != Some(&error) {
                        log_error(&error, self.store.has_content());
                        self.logged_error = Some(error);
                    }
                    return;
                }
            },
        };
        for error in errors {
            log_error(&error, self.store.has_content_of(&error.file));
        }
        if self.store.is_blocked() && !self.has_logged_block {
            self.has_logged_block = true;
            tracing::warn!("no rules are written until a manifest is valid");
        }
    }

    /// Returns the files that may have changed. Returns `None` if all have to be listed.
    fn changed_files(&mut self, now: Instant) -> Option<BTreeSet<PathBuf>> {
        let watch = self.watch.as_mut()?;
        let expired = watch.take_expired(now);
        let taken = watch.take_changes();
        if self.is_poll || watch.is_partial() || self.logged_error.is_some() {
            return None;
        }
        let (DirectoryChanges::Entries(entries), Some(found)) = (taken, &mut self.found) else {
            return None;
        };
        let mut changed = BTreeSet::new();
        for entry in expired {
            let files = found.update(&entry)?;
            for file in &files {
                log_open_file(file);
            }
            changed.extend(files);
        }
        for entry in entries {
            changed.extend(found.update(&entry)?);
        }
        Some(changed)
    }

    fn read_all(&mut self, found: ManifestFiles, now: Instant) -> Vec<ManifestError> {
        self.logged_error = None;
        let has_events = self.watch.as_ref().is_some_and(|watch| !watch.is_partial());
        let completeness = if has_events && !self.is_poll {
            Completeness::Reported
        } else {
            Completeness::Settled
        };
        let watch = &mut self.watch;
        let reading = FileReading {
            now,
            completeness,
            is_incomplete: &mut |file| is_incomplete(watch, &found, file, now),
        };
        let errors = self.store.reread(&found, reading);
        self.found = Some(found);
        errors
    }

    fn read_files(&mut self, files: &BTreeSet<PathBuf>, now: Instant) -> Vec<ManifestError> {
        let Some(found) = &self.found else {
            return Vec::new();
        };
        let watch = &mut self.watch;
        let mut reading = FileReading {
            now,
            completeness: Completeness::Reported,
            is_incomplete: &mut |file| is_incomplete(watch, found, file, now),
        };
        let mut errors = Vec::new();
        for file in files {
            if found.files.contains(file) {
                errors.extend(self.store.reread_file(file, &mut reading));
            } else {
                self.store.remove_file(file);
            }
        }
        errors
    }

    /// Returns the number of files that cannot be used now. The path itself counts as one more
    /// while it cannot be listed.
    fn unusable(&self) -> usize {
        self.store.unusable_files() + usize::from(self.logged_error.is_some())
    }

    /// Finds the manifests and watches their directories. Repeats that while there are directories
    /// that were not watched before, so that no change between the two steps is missed.
    fn find_and_watch(&mut self) -> Result<ManifestFiles, ManifestError> {
        let mut found = find(&self.root)?;
        while self.watch.as_mut().is_some_and(|watch| watch.watch(&found)) {
            found = find(&self.root)?;
        }
        Ok(found)
    }

    /// Waits for a change, and then until none follows. Without a change, waits for
    /// [`POLL_INTERVAL`].
    async fn wait(&mut self) {
        let poll = self.store.settle_time().unwrap_or(POLL_INTERVAL);
        let Some(watch) = &mut self.watch else {
            self.is_poll = true;
            return sleep(poll).await;
        };
        let start = Instant::now();
        self.is_poll = false;
        while !watch.has_changes() {
            let deadline = watch.deadline();
            let end = deadline.map_or(start + poll, |deadline| deadline.min(start + poll));
            if timeout_at(end, watch.next()).await.is_err() {
                self.is_poll = deadline != Some(end);
                return;
            }
        }
        let mut quiet = QuietWait::start();
        while let Some(rest) = quiet.rest()
            && let Ok(is_change) = timeout(rest, watch.next()).await
        {
            if is_change {
                quiet.changed();
            }
        }
    }
}

/// Reports whether a program is writing a file, as far as events show.
fn is_incomplete(
    watch: &mut Option<DirectoryWatch>,
    found: &ManifestFiles,
    file: &Path,
    now: Instant,
) -> bool {
    let watch = watch.as_mut().zip(found.canonical(file));
    watch.is_some_and(|(watch, file)| watch.is_incomplete(&file, now))
}
