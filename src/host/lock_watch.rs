//! Notices that a program opened the xtables lock, without a process and without waiting.
//!
//! Each program of legacy iptables that may change rules opens this file first; the one that only
//! saves them does not. As long as no program opens it, all rules are as they were.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

/// Path of the lock unless the environment names another one.
///
/// Upstream: iptables, iptables/xshared.h, `XT_LOCK_NAME`
const LOCK: &str = "/run/xtables.lock";

/// Variable by which the programs, which inherit it, are told of another path.
pub(super) const LOCK_VARIABLE: &str = "XTABLES_LOCKFILE";

/// Counts changes of the state "opened since".
#[derive(Debug)]
pub(super) struct LockWatch {
    path: PathBuf,
    inotify: Inotify,
    /// `None`: the file was not there, or has been replaced by another one.
    file: RefCell<Option<WatchDescriptor>>,
    /// Grows with each look that finds that the lock was opened.
    generation: Cell<u32>,
}

impl LockWatch {
    /// Begins to watch the lock that the programs use.
    ///
    /// # Errors
    ///
    /// The user has too many inotify instances.
    pub(super) fn start() -> Result<Self, Errno> {
        let path = std::env::var_os(LOCK_VARIABLE).map_or_else(|| LOCK.into(), PathBuf::from);
        Self::of(path)
    }

    fn of(path: PathBuf) -> Result<Self, Errno> {
        let watch = Self {
            path,
            inotify: Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?,
            file: RefCell::new(None),
            generation: Cell::new(0),
        };
        watch.watch_file();
        Ok(watch)
    }

    /// A number that is the same in two calls only if no program opened the lock between them.
    /// `None` while there is no file to watch.
    pub(super) fn generation(&self) -> Option<u32> {
        let events = self.drain();
        let is_file_gone = AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_IGNORED
            | AddWatchFlags::IN_ATTRIB;
        if !events.is_empty() || self.file.borrow().is_none() {
            self.generation.set(self.generation.get().wrapping_add(1));
        }
        if self.file.borrow().is_none() || events.intersects(is_file_gone) {
            self.watch_file();
        }
        let is_watched = self.file.borrow().is_some();
        is_watched.then(|| self.generation.get())
    }

    /// Watches the file that has the path now, and no other one.
    fn watch_file(&self) {
        let wanted = AddWatchFlags::IN_OPEN
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            // Deleting a file that is still open only changes its number of links.
            | AddWatchFlags::IN_ATTRIB;
        let now = self.inotify.add_watch(&self.path, wanted).ok();
        let before = self.file.replace(now);
        if let Some(before) = before.filter(|_| before != now) {
            // The kernel has removed the watch of a file that is gone.
            let _ = self.inotify.rm_watch(before);
        }
    }

    /// All kinds of events that are waiting.
    fn drain(&self) -> AddWatchFlags {
        let mut kinds = AddWatchFlags::empty();
        while let Ok(events) = self.inotify.read_events() {
            for event in events {
                kinds |= event.mask;
            }
        }
        kinds
    }
}

#[cfg(test)]
#[path = "tests/lock_watch.rs"]
mod tests;
