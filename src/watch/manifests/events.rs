//! Watches directories by inotify, and collects which of their entries may have changed.
//!
//! Events are read by the program that reads the files, and not by a thread of its own: after a
//! file was read, the events show whether a program has begun to write it meanwhile.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::replace;
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InotifyEvent, WatchDescriptor};
use tokio::time::Instant;

use super::files::{ManifestFiles, Siblings};
use super::writes::{Access, Writes};
use crate::watch::file_events::FileEvents;

/// Maximum entries that are named. Above it, listing all directories costs no more than to look at
/// each entry.
const MAX_ENTRIES: usize = 4096;

/// Changes of watched directories since they were last taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DirectoryChanges {
    /// Events are missing: any entry may have changed.
    Any,
    /// Entries that may have changed, by the canonical paths of their directories.
    Entries(BTreeSet<PathBuf>),
}

/// Watched directories and their changes.
#[derive(Debug)]
pub(super) struct DirectoryWatch {
    events: FileEvents,
    directories: HashMap<WatchDescriptor, PathBuf>,
    /// Directories that could not be watched. Each is reported once.
    failed: BTreeSet<PathBuf>,
    /// A directory is watched by several paths, as with bind mounts.
    is_shared: bool,
    /// Path of the manifests, below the canonical path of its parent.
    root: PathBuf,
    siblings: Siblings,
    changed: DirectoryChanges,
    writes: Writes,
}

impl DirectoryWatch {
    /// # Errors
    ///
    /// The user has too many inotify instances.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            events: FileEvents::new()?,
            directories: HashMap::new(),
            failed: BTreeSet::new(),
            is_shared: false,
            root: PathBuf::new(),
            siblings: Siblings::Ignored,
            changed: DirectoryChanges::Entries(BTreeSet::new()),
            writes: Writes::default(),
        })
    }

    /// Watches the directories of these files and no others. Reports whether one of them was not
    /// watched before. Known ones are watched again, as another directory may have taken their
    /// name.
    pub(super) fn watch(&mut self, found: &ManifestFiles) -> bool {
        let flags = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CLOSE
            | AddWatchFlags::IN_OPEN
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        (self.root, self.siblings) = (found.root.clone(), found.siblings);
        let wanted = &found.directories;
        let (mut watched, mut is_new) = (HashMap::new(), false);
        self.is_shared = false;
        for directory in wanted {
            match self.events.inotify.add_watch(directory, flags) {
                Ok(descriptor) => {
                    self.failed.remove(directory);
                    is_new |= !self.directories.contains_key(&descriptor);
                    let other = watched.insert(descriptor, directory.clone());
                    // The kernel reports the entries of a directory once, and not by which path.
                    self.is_shared |= other.is_some();
                }
                Err(error) if self.failed.insert(directory.clone()) => {
                    is_new = true;
                    tracing::warn!(
                        directory = %directory.display(),
                        %error,
                        "cannot watch a directory of manifests for changes; polling every minute",
                    );
                }
                Err(_) => {}
            }
        }
        self.failed.retain(|directory| wanted.contains(directory));
        for (descriptor, _) in replace(&mut self.directories, watched) {
            if !self.directories.contains_key(&descriptor) {
                // Fails if the directory was deleted, and then there is no watch to remove.
                let _ = self.events.inotify.rm_watch(descriptor);
            }
        }
        is_new
    }

    /// Reports whether events do not name all changes.
    pub(super) fn is_partial(&self) -> bool {
        !self.failed.is_empty() || self.is_shared
    }

    /// Reports whether there are changes that were not taken.
    pub(super) fn has_changes(&self) -> bool {
        self.changed != DirectoryChanges::Entries(BTreeSet::new())
    }

    /// Waits for events, and reads them. Reports whether they may mean that manifests changed.
    pub(super) async fn next(&mut self) -> bool {
        self.events.readable().await;
        self.read_events(Instant::now())
    }

    /// Reports whether a program is writing the file, as far as events show.
    pub(super) fn is_incomplete(&mut self, file: &Path, now: Instant) -> bool {
        self.read_events(now);
        self.writes.is_incomplete(file)
    }

    /// Returns when a file that is not closed counts as complete.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.writes.deadline()
    }

    /// Returns the files that are not closed, but count as complete now.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<PathBuf> {
        self.read_events(now);
        self.writes.expired(now)
    }

    /// Returns the entries that may have changed, without those that programs are writing: these
    /// are returned when they are complete.
    pub(super) fn take_changes(&mut self) -> DirectoryChanges {
        let none = DirectoryChanges::Entries(BTreeSet::new());
        match replace(&mut self.changed, none) {
            DirectoryChanges::Entries(mut entries) => {
                entries.retain(|entry| !self.writes.is_incomplete(entry));
                DirectoryChanges::Entries(entries)
            }
            DirectoryChanges::Any => DirectoryChanges::Any,
        }
    }

    /// Reads all events. Reports whether they may mean that manifests changed.
    fn read_events(&mut self, now: Instant) -> bool {
        let Ok(events) = self.events.read() else {
            self.lose_events();
            return true;
        };
        let mut is_relevant = false;
        for event in events {
            is_relevant |= self.add_event(event, now);
        }
        is_relevant
    }

    fn add_event(&mut self, event: InotifyEvent, now: Instant) -> bool {
        let has = |flags| event.mask.intersects(flags);
        if has(AddWatchFlags::IN_Q_OVERFLOW) {
            self.lose_events();
            return true;
        }
        let Some(directory) = self.directories.get(&event.wd) else {
            return false;
        };
        let is_directory = event.name.is_none() || has(AddWatchFlags::IN_ISDIR);
        let entry = match event.name {
            Some(name) => directory.join(name),
            None => directory.clone(),
        };
        if has(AddWatchFlags::IN_IGNORED) {
            self.directories.remove(&event.wd);
        }
        if !self.is_relevant(&entry) {
            return false;
        }
        if is_directory {
            let is_access = has(AddWatchFlags::IN_OPEN | AddWatchFlags::IN_CLOSE);
            return !is_access && self.add_change(entry);
        }
        if self.is_change(event.mask, event.cookie, &entry, now) {
            self.add_change(entry);
            return true;
        }
        false
    }

    /// Records an event of a file. Reports whether the file should be read.
    fn is_change(&mut self, kind: AddWatchFlags, rename: u32, file: &Path, now: Instant) -> bool {
        let writes = &mut self.writes;
        match kind {
            AddWatchFlags::IN_OPEN => writes.opened(file.to_owned(), now),
            AddWatchFlags::IN_MODIFY => writes.modified(file.to_owned(), now),
            AddWatchFlags::IN_CLOSE_NOWRITE => return writes.closed(file, Access::Read),
            AddWatchFlags::IN_CLOSE_WRITE => {
                writes.closed(file, Access::Write);
                return true;
            }
            AddWatchFlags::IN_CREATE => {
                writes.created(file.to_owned());
                return true;
            }
            AddWatchFlags::IN_DELETE => {
                writes.removed(file);
                return true;
            }
            AddWatchFlags::IN_MOVED_FROM => {
                writes.renamed_from(file, rename);
                return true;
            }
            AddWatchFlags::IN_MOVED_TO => {
                writes.renamed_to(file.to_owned(), rename);
                return true;
            }
            _ => return true,
        }
        false
    }

    /// Reports whether an entry may be a manifest, or may lead to one.
    ///
    /// The parent directory of the root is watched because a file is often replaced by renaming,
    /// and because the kubelet updates a mounted `ConfigMap` by replacing the symbolic link
    /// `..data` next to its files. With [`Siblings::Ignored`], other entries of that directory
    /// count only if their name begins with `..`, in case the root leads through `..data` now and
    /// was not found again yet.
    fn is_relevant(&self, entry: &Path) -> bool {
        let is_sibling = entry != self.root && entry.parent() == self.root.parent();
        let name = entry.file_name().unwrap_or_default().as_encoded_bytes();
        self.siblings == Siblings::Relevant || !is_sibling || name.starts_with(b"..")
    }

    fn add_change(&mut self, entry: PathBuf) -> bool {
        if let DirectoryChanges::Entries(entries) = &mut self.changed {
            entries.insert(entry);
            if entries.len() > MAX_ENTRIES {
                self.changed = DirectoryChanges::Any;
            }
        }
        true
    }

    fn lose_events(&mut self) {
        self.changed = DirectoryChanges::Any;
        self.writes.lost_events();
    }
}
