//! Watches manifests, and reads them again when they change.
//!
//! Separate from [`store`](super::store), which reads the files and decides what has changed,
//! without watching or waiting.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::files::{ManifestError, ManifestFiles, STDIN, Siblings, find};
use super::load::{ManifestErrors, load};
use super::store::Store;
use super::{ManifestOptions, Manifests, Validation};
use crate::model::Kind;
use crate::telemetry::ManifestMetrics;
use crate::watch::Ingester;
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
        watched.changed.wait().await;
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

/// Watched manifests and their content.
struct WatchedManifests {
    root: PathBuf,
    store: Store,
    changed: Arc<ChangeSignal>,
    /// `None` if there are no notifications of changes, and the files are only polled.
    watcher: Option<RecommendedWatcher>,
    watched_directories: HashSet<PathBuf>,
    /// Last logged error of the path itself.
    logged_error: Option<ManifestError>,
    /// The warning was logged that nothing is sent before a manifest is valid.
    has_logged_block: bool,
}

impl WatchedManifests {
    fn new(root: PathBuf) -> Self {
        let changed = Arc::new(ChangeSignal::default());
        let watcher = watcher(&root, Arc::clone(&changed))
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot watch manifests for changes; polling every minute");
            })
            .ok();
        Self {
            root,
            store: Store::default(),
            changed,
            watcher,
            watched_directories: HashSet::new(),
            logged_error: None,
            has_logged_block: false,
        }
    }

    /// Reads on another thread, as large manifests take a while.
    async fn read_on_thread(mut self, path: &Path) -> Result<Self, ManifestError> {
        let reading = spawn_blocking(move || {
            self.read();
            self
        });
        // Reading does not panic, so the error is a runtime that is shutting down.
        reading
            .await
            .map_err(|error| ManifestError::new(path, &error))
    }

    fn read(&mut self) {
        let found = match self.find_and_watch() {
            Ok(found) => found,
            Err(error) => {
                if self.logged_error.as_ref() != Some(&error) {
                    log_error(&error, self.store.has_content());
                    self.logged_error = Some(error);
                }
                return;
            }
        };
        self.logged_error = None;
        for error in self.store.reread(&found) {
            log_error(&error, self.store.has_content_of(&error.file));
        }
        if self.store.is_blocked() && !self.has_logged_block {
            self.has_logged_block = true;
            tracing::warn!("no rules are written until a manifest is valid");
        }
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
        while self.watch(&found) {
            found = find(&self.root)?;
        }
        Ok(found)
    }

    /// Watches all directories. Reports whether one of them was not watched before. Known ones are
    /// watched again, as another directory may have taken their name.
    fn watch(&mut self, found: &ManifestFiles) -> bool {
        let are_relevant = found.siblings == Siblings::Relevant;
        let siblings = &self.changed.are_siblings_relevant;
        siblings.store(are_relevant, Ordering::Relaxed);
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        let mut is_new = false;
        for directory in &found.directories {
            let outcome = watcher.watch(directory, RecursiveMode::NonRecursive);
            let is_first = self.watched_directories.insert(directory.clone());
            is_new |= is_first;
            if let (Err(error), true) = (outcome, is_first) {
                tracing::warn!(
                    directory = %directory.display(),
                    %error,
                    "cannot watch a directory of manifests for changes; polling every minute",
                );
            }
        }
        let removed = self
            .watched_directories
            .extract_if(|directory| !found.directories.contains(directory));
        for directory in removed {
            // Fails if the directory was deleted, and then there is no watch to remove.
            let _ = watcher.unwatch(&directory);
        }
        is_new
    }
}

/// Notification that files may have changed.
#[derive(Default)]
struct ChangeSignal {
    notify: Notify,
    /// [`Siblings::Relevant`] for the root.
    are_siblings_relevant: AtomicBool,
}

impl ChangeSignal {
    /// Waits for a change, and then until none has followed for [`QUIET_TIME`]. Without a change,
    /// waits for [`POLL_INTERVAL`].
    async fn wait(&self) {
        if timeout(POLL_INTERVAL, self.notify.notified())
            .await
            .is_err()
        {
            return;
        }
        let quiet = async { while timeout(QUIET_TIME, self.notify.notified()).await.is_ok() {} };
        let _ = timeout(MAX_QUIET_WAIT, quiet).await;
    }
}

/// Time without a change after which files are read: more than an editor or `cp` takes between two
/// writes. If it were shorter, incomplete files would be read more often; a longer one would delay
/// every change.
const QUIET_TIME: Duration = Duration::from_millis(200);

/// Maximum wait for [`QUIET_TIME`], while changes follow each other.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(2);

/// Interval of polling, for file systems without notifications, like NFS.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

fn watcher(root: &Path, changed: Arc<ChangeSignal>) -> notify::Result<RecommendedWatcher> {
    let root = root.to_owned();
    notify::recommended_watcher(move |event: notify::Result<Event>| {
        let siblings = if changed.are_siblings_relevant.load(Ordering::Relaxed) {
            Siblings::Relevant
        } else {
            Siblings::Ignored
        };
        // After an error the files are read as well: events may be lost.
        if event.is_ok_and(|event| !is_relevant(&event, &root, siblings)) {
            return;
        }
        changed.notify.notify_one();
    })
}

/// Reports whether the event may mean that manifests changed. That a program opens or reads a file
/// means nothing, unlike the end of writing.
///
/// The parent directory of the root is watched because a file is often replaced by renaming, and
/// because the kubelet updates a mounted `ConfigMap` by replacing the symbolic link `..data` next
/// to its files. With [`Siblings::Ignored`], other entries of that directory count only if their
/// name begins with `..`, in case the root leads through `..data` now and was not found again yet.
fn is_relevant(event: &Event, root: &Path, siblings: Siblings) -> bool {
    const WRITTEN: AccessKind = AccessKind::Close(AccessMode::Write);

    if matches!(event.kind, EventKind::Access(kind) if kind != WRITTEN) {
        return false;
    }
    if siblings == Siblings::Relevant {
        return true;
    }
    let is_ignored = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let is_sibling = path != root && path.parent() == root.parent();
        is_sibling && !name.starts_with(b"..")
    };
    event.paths.is_empty() || !event.paths.iter().all(is_ignored)
}
