//! Watches manifests, and reads them again when they change.
//!
//! Separate from [`store`](super::store), which reads the files and decides what has changed,
//! without watching or waiting.

use std::collections::HashSet;
use std::convert::Infallible;
use std::mem::replace;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::files::{ManifestError, ManifestFiles, STDIN, find};
use super::load::{ManifestErrors, load};
use super::store::Store;
use super::{ManifestOptions, Manifests, Validation};
use crate::telemetry::ManifestMetrics;
use crate::watch::Ingester;
use crate::watch::file_events::{FileEvents, POLL_INTERVAL, QUIET_TIME};

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

/// Watched manifests and their content.
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
