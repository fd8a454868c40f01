//! Observes the xtables lock: the time that a program waits for it, and whether any program has
//! opened it.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

/// Path of the lock, unless the environment names another one.
///
/// Upstream: iptables, iptables/xshared.h, `XT_LOCK_NAME`
const LOCK: &str = "/run/xtables.lock";

/// Environment variable with another path of the lock, which programs inherit.
pub(super) const LOCK_VARIABLE: &str = "XTABLES_LOCKFILE";

/// Interval of checks, and so the precision of the measured wait. A tenth of a second is far below
/// any wait that matters to a sync, and costs one small read.
const INTERVAL: Duration = Duration::from_millis(100);

/// Measures the time that a program waits for the lock.
///
/// iptables 1.8 does not report its wait, so the kernel is queried for the system call that the
/// program sleeps in.
pub(super) struct LockWait {
    pid: Option<u32>,
    ticks: u32,
}

impl LockWait {
    /// Measures the wait of process `pid`; without one, the wait is always zero.
    pub(super) const fn new(pid: Option<u32>) -> Self {
        Self { pid, ticks: 0 }
    }

    /// Checks the process until dropped.
    pub(super) async fn watch(&mut self) -> Infallible {
        let Some(pid) = self.pid else {
            return std::future::pending().await;
        };
        let path = format!("/proc/{pid}/syscall");
        loop {
            tokio::time::sleep(INTERVAL).await;
            // Not readable where the kernel or the container forbids it; then the wait is zero.
            if std::fs::read_to_string(&path).is_ok_and(|line| is_flock(&line)) {
                self.ticks += 1;
            }
        }
    }

    /// Returns the time waited so far.
    pub(super) fn waited(&self) -> Duration {
        INTERVAL * self.ticks
    }
}

/// Reports whether a line of `/proc/PID/syscall` is that of a process sleeping in `flock`.
fn is_flock(line: &str) -> bool {
    let number = line.split(' ').next().and_then(|word| word.parse().ok());
    number == Some(libc::SYS_flock)
}

/// Detects by inotify that a program has opened the lock.
///
/// Every program of legacy iptables that may change rules opens the lock first; `iptables-save`
/// does not. As long as no program opens it, no rule has changed.
#[derive(Debug)]
pub(super) struct LockWatch {
    path: PathBuf,
    inotify: Inotify,
    /// Watch of the file; `None` if the file was missing.
    file: RefCell<Option<WatchDescriptor>>,
    /// Incremented by each check that finds that the lock was opened.
    generation: Cell<u32>,
}

impl LockWatch {
    /// Starts to watch the lock that the programs use.
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

    /// Returns a number that is the same in two calls only if no program opened the lock in
    /// between; `None` while the file is missing.
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

    /// Watches the file that has the path now in place of the previous one.
    fn watch_file(&self) {
        let wanted = AddWatchFlags::IN_OPEN
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            // Deleting an open file only changes its number of links.
            | AddWatchFlags::IN_ATTRIB;
        let now = self.inotify.add_watch(&self.path, wanted).ok();
        let before = self.file.replace(now);
        if let Some(before) = before.filter(|_| before != now) {
            // Fails for a deleted file, whose watch the kernel has removed.
            let _ = self.inotify.rm_watch(before);
        }
    }

    /// Reads all pending events and returns their types.
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
#[path = "tests/lock.rs"]
mod tests;
