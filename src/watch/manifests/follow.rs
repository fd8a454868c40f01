//! Keeps reading manifests while they change.
//!
//! Apart from [`store`](super::store), which decides what a change means: here is the waiting.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::ManifestOptions;
use super::error::ManifestError;
use super::files::{Found, find};
use super::load::{STDIN, load};
use super::store::Store;
use crate::watch::{Outlet, Sink};

/// Sends what the manifests at `path` say, and again whenever they say something else; standard
/// input is read once. Runs until it is dropped.
///
/// A file that cannot be read keeps its last good content; one that is broken from the start holds
/// back the first list, so that nothing is removed because of it. Both are logged with file, line
/// and reason, once.
///
/// # Errors
///
/// Only at the start: the path does not exist, or standard input is broken.
pub async fn follow<S: Sink>(
    path: PathBuf,
    options: ManifestOptions,
    mut outlet: Outlet<S>,
) -> Result<Infallible, ManifestError> {
    if path == Path::new(STDIN) {
        // Standard input may be silent for as long as it likes.
        let reading = spawn_blocking(move || load(&path, &options)).await;
        let manifests = reading.map_err(|error| ManifestError::new(Path::new(STDIN), &error))??;
        log_notes(&manifests.notes, &mut HashSet::new());
        manifests.send(&mut outlet);
        return std::future::pending().await;
    }
    let root = std::path::absolute(&path).map_err(|error| ManifestError::new(&path, &error))?;
    find(&root)?;
    let mut source = Source::new(root);
    let mut logged = HashSet::new();
    loop {
        source = source.read_apart(&path).await?;
        if let Some(manifests) = source.store.news(&options) {
            log_notes(&manifests.notes, &mut logged);
            manifests.send(&mut outlet);
        }
        source.changed.settled().await;
    }
}

/// Logs what was not already true before.
fn log_notes(notes: &[String], logged: &mut HashSet<String>) {
    for note in notes.iter().filter(|note| !logged.contains(*note)) {
        tracing::warn!("{note}");
    }
    *logged = notes.iter().cloned().collect();
}

/// The files, and who says that they changed.
struct Source {
    root: PathBuf,
    store: Store,
    changed: Arc<Changed>,
    /// `None`: changes are found by looking only.
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    /// What was last said of the directory itself.
    complaint: Option<ManifestError>,
    /// That nothing was sent yet was explained.
    has_said_why: bool,
}

impl Source {
    fn new(root: PathBuf) -> Self {
        let changed = Arc::new(Changed::default());
        let watcher = watcher(&root, Arc::clone(&changed))
            .inspect_err(|error| tracing::warn!("manifests are read every minute only: {error}"))
            .ok();
        Self {
            root,
            store: Store::default(),
            changed,
            watcher,
            watched: HashSet::new(),
            complaint: None,
            has_said_why: false,
        }
    }

    /// Reads on a thread of its own: large manifests take a while.
    async fn read_apart(mut self, path: &Path) -> Result<Self, ManifestError> {
        let reading = spawn_blocking(move || {
            self.read();
            self
        });
        // Reading does not panic; what remains is a runtime that is shutting down.
        reading
            .await
            .map_err(|error| ManifestError::new(path, &error))
    }

    fn read(&mut self) {
        let found = match self.find_and_watch() {
            Ok(found) => found,
            Err(error) => {
                if self.complaint.as_ref() != Some(&error) {
                    tracing::error!("{error}; the last content is kept");
                    self.complaint = Some(error);
                }
                return;
            }
        };
        self.complaint = None;
        for error in self.store.reread(&found) {
            tracing::error!("{error}; the last good content is kept");
        }
        if self.store.holds_back() && !self.has_said_why {
            self.has_said_why = true;
            tracing::warn!("no rule is written until every manifest could be read once");
        }
    }

    /// Watches before it looks, so that nothing is missed between the two.
    fn find_and_watch(&mut self) -> Result<Found, ManifestError> {
        let mut found = find(&self.root)?;
        while self.watch(&found) {
            found = find(&self.root)?;
        }
        Ok(found)
    }

    /// Whether there was any directory that was not watched before. Known ones are watched anew,
    /// as another one may have taken their name.
    fn watch(&mut self, found: &Found) -> bool {
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        let mut is_new = false;
        for directory in &found.directories {
            let outcome = watcher.watch(directory, RecursiveMode::NonRecursive);
            let is_first = self.watched.insert(directory.clone());
            is_new |= is_first;
            if let (Err(error), true) = (outcome, is_first) {
                let directory = directory.display();
                tracing::warn!("`{directory}` is looked at every minute only: {error}");
            }
        }
        let gone = self
            .watched
            .extract_if(|directory| !found.directories.contains(directory));
        for directory in gone {
            // Fails if the directory itself is gone, and then there is nothing to undo.
            let _ = watcher.unwatch(&directory);
        }
        is_new
    }
}

/// Tells that files may have changed.
#[derive(Default)]
struct Changed {
    notify: Notify,
}

impl Changed {
    /// Waits for a change, and until no more follow at once. Looks unasked after [`RELOOK`].
    async fn settled(&self) {
        if timeout(RELOOK, self.notify.notified()).await.is_err() {
            return;
        }
        let quiet = async { while timeout(QUIET, self.notify.notified()).await.is_ok() {} };
        let _ = timeout(LONGEST_WAIT, quiet).await;
    }
}

/// What an editor or `cp` needs between its first and last write. Shorter reads halves of files
/// more often, longer delays every change.
const QUIET: Duration = Duration::from_millis(200);

/// A directory in which something always changes is still read this often.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// For file systems that do not tell, like NFS.
const RELOOK: Duration = Duration::from_secs(60);

fn watcher(root: &Path, changed: Arc<Changed>) -> notify::Result<RecommendedWatcher> {
    let root = root.to_owned();
    notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error may stand for lost events.
        if event.is_ok_and(|event| !concerns(&event, &root)) {
            return;
        }
        changed.notify.notify_one();
    })
}

/// Whether `event` can mean another content: reading is no change, and of what lies beside the
/// root only the hidden entries matter that a `ConfigMap` is swapped with.
fn concerns(event: &Event, root: &Path) -> bool {
    const WRITTEN: AccessKind = AccessKind::Close(AccessMode::Write);

    if matches!(event.kind, EventKind::Access(kind) if kind != WRITTEN) {
        return false;
    }
    let is_beside = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        path != root && path.parent() == root.parent() && !name.starts_with(b"..")
    };
    event.paths.is_empty() || !event.paths.iter().all(is_beside)
}
