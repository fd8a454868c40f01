//! Watches the directories of manifests by inotify, so that changes are looked for at once.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::mem::replace;
use std::path::PathBuf;

use nix::sys::inotify::WatchDescriptor;

use crate::watch::file_events::FileEvents;

/// Watched directories.
#[derive(Debug)]
pub(super) struct DirectoryWatch {
    events: FileEvents,
    watched: HashSet<WatchDescriptor>,
    /// Directories that could not be watched. Each is reported once.
    failed: BTreeSet<PathBuf>,
}

impl DirectoryWatch {
    /// # Errors
    ///
    /// The user has too many inotify instances.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            events: FileEvents::new()?,
            watched: HashSet::new(),
            failed: BTreeSet::new(),
        })
    }

    /// Watches these directories and no others. Reports whether one of them was not watched
    /// before. Known ones are watched again, as another directory may have taken their name.
    pub(super) fn watch(&mut self, directories: &BTreeSet<PathBuf>) -> bool {
        let mut watched = HashSet::new();
        for directory in directories {
            match self.events.watch(directory) {
                Ok(descriptor) => {
                    self.failed.remove(directory);
                    watched.insert(descriptor);
                }
                Err(error) if self.failed.insert(directory.clone()) => {
                    tracing::warn!(
                        directory = %directory.display(),
                        %error,
                        "cannot watch a directory of manifests for changes; polling every minute",
                    );
                }
                Err(_) => {}
            }
        }
        self.failed
            .retain(|directory| directories.contains(directory));
        let before = replace(&mut self.watched, watched);
        for descriptor in before.difference(&self.watched) {
            // Fails if the directory was deleted, and then there is no watch to remove.
            let _ = self.events.inotify.rm_watch(*descriptor);
        }
        !self.watched.is_subset(&before)
    }

    /// Waits for events.
    pub(super) async fn changed(&self) {
        self.events.changed().await;
    }
}
