//! Watches directories by inotify, so that changes of files are looked for at once.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::replace;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep, timeout};

use crate::linux::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use crate::linux::readable;

/// Interval of polling, for file systems without notifications, like NFS.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Time without a change after which files are read. A program that writes a file in place first
/// truncates it: one that pauses longer is read too early.
pub(crate) const QUIET_TIME: Duration = Duration::from_secs(1);

/// Maximum wait for [`QUIET_TIME`], where programs write all the time.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(10);

/// Directories that are watched, as far as the system permits.
#[derive(Debug)]
pub(crate) struct FileEvents {
    /// `None` if the user has too many inotify instances.
    inotify: Option<WaitingInotify>,
    watched: HashMap<WatchDescriptor, PathBuf>,
    /// Directories that could not be watched. Each is reported once.
    failed: BTreeSet<PathBuf>,
}

/// Inotify instance that a task of the runtime can wait for.
#[derive(Debug)]
struct WaitingInotify {
    inotify: Inotify,
    /// Duplicate of the descriptor, which the runtime waits for.
    descriptor: Receiver,
}

impl FileEvents {
    /// Returns an instance without watches. Logs an error, after which files are only polled.
    pub(crate) fn new() -> Self {
        let inotify = WaitingInotify::new().inspect_err(|error| {
            tracing::warn!(%error, "cannot watch files for changes; polling every minute");
        });
        Self {
            inotify: inotify.ok(),
            watched: HashMap::new(),
            failed: BTreeSet::new(),
        }
    }

    /// Watches these directories and no others. Reports whether one of them was not watched
    /// before. Known ones are watched again, as another directory may have taken their name.
    pub(crate) fn watch(&mut self, directories: &BTreeSet<PathBuf>) -> bool {
        let changes = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let Some(WaitingInotify { inotify, .. }) = &self.inotify else {
            return false;
        };
        let mut watched = HashMap::new();
        for directory in directories {
            match inotify.add_watch(directory, changes) {
                Ok(descriptor) => {
                    self.failed.remove(directory);
                    watched.insert(descriptor, directory.clone());
                }
                Err(error) if self.failed.insert(directory.clone()) => {
                    tracing::warn!(
                        directory = %directory.display(),
                        %error,
                        "cannot watch a directory for changes; polling every minute",
                    );
                }
                Err(_) => {}
            }
        }
        self.failed
            .retain(|directory| directories.contains(directory));
        let before = replace(&mut self.watched, watched);
        for descriptor in before.keys() {
            if !self.watched.contains_key(descriptor) {
                // Fails if the directory was deleted, and then there is no watch to remove.
                let _ = inotify.rm_watch(*descriptor);
            }
        }
        let mut watched = self.watched.keys();
        watched.any(|descriptor| !before.contains_key(descriptor))
    }

    /// Waits for a change, but not longer than `interval`, and then until the files are complete:
    /// for [`QUIET_TIME`] without another change. Files that were renamed are complete already.
    pub(crate) async fn changed(&mut self, interval: Duration) {
        let (mut wait, mut end, mut is_complete) = (interval, None, true);
        while let Some(are_renames) = self.next(wait).await {
            let end = *end.get_or_insert_with(|| Instant::now() + MAX_QUIET_WAIT);
            is_complete &= are_renames;
            if is_complete || Instant::now() >= end {
                return;
            }
            wait = QUIET_TIME;
        }
    }

    /// Waits for changes, but not longer than `interval`. Reports whether all are of names.
    async fn next(&self, interval: Duration) -> Option<bool> {
        let Some(inotify) = &self.inotify else {
            sleep(interval).await;
            return None;
        };
        let events = timeout(interval, inotify.changed()).await.ok()?;
        // None: some are lost.
        let are_renames = !events.is_empty()
            && events
                .iter()
                .all(|event| event.mask.intersects(AddWatchFlags::IN_MOVE));
        Some(are_renames)
    }
}

impl WaitingInotify {
    fn new() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let descriptor = inotify.as_fd().try_clone_to_owned()?;
        Ok(Self {
            inotify,
            descriptor: Receiver::from_owned_fd_unchecked(descriptor)?,
        })
    }

    /// Waits until there are events, and returns all of them.
    async fn changed(&self) -> Vec<InotifyEvent> {
        readable(&self.descriptor).await;
        let mut all = Vec::new();
        loop {
            match self.inotify.read_events() {
                Ok(events) => all.extend(events),
                Err(Errno::EINTR) => {}
                // No more, or some are lost: a change as well.
                Err(_) => return all,
            }
        }
    }
}
