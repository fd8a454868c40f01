//! Observes the xtables lock: the time that a program waits for it, when programs open and release
//! it, and whether all programs of the node share it.

use std::cell::{Cell, OnceCell, RefCell};
use std::convert::Infallible;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::SetOnce;
use tokio::time::{Instant, sleep_until};

use crate::linux;
use crate::linux::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

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
/// iptables 1.8.9 prints nothing while it waits, nor when it gets the lock, so the kernel is asked
/// for the system call that the program sleeps in.
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

    pub(super) fn waited(&self) -> Duration {
        INTERVAL * self.ticks
    }
}

/// Reports whether a line of `/proc/PID/syscall` is that of a process sleeping in `flock`.
fn is_flock(line: &str) -> bool {
    let number = line.split(' ').next().and_then(|word| word.parse().ok());
    number == Some(linux::SYS_FLOCK)
}

/// Time without an opening of the lock after which a change of rules shows that a program does not
/// use it. A program opens the lock before it changes rules, but may wait for it and hold it for
/// minutes: this is the deadline of our own restores.
const LONGEST_HOLD: Duration = Duration::from_secs(300);

/// Time for which the lock stays closed after a restore. Between two tables, a restore closes it
/// and opens it again at once.
const CLOSED_FOR: Duration = Duration::from_millis(10);

/// Evidence that programs of this node change rules without the lock that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsharedLock {
    /// The file was deleted on the host, and the path still leads to it, as a mount of a file does.
    /// Programs on the host have created another one.
    Deleted,
    /// Rules have changed although no program has opened the lock for [`LONGEST_HOLD`].
    Bypassed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct WatchedLockFile {
    watch: WatchDescriptor,
    /// Device and inode.
    id: (u64, u64),
}

/// Detects by inotify that a program has opened or closed the lock.
///
/// Every program of legacy iptables that may change rules opens the lock first; `iptables-save`
/// does not. As long as no program opens it, no rule has changed, provided that all programs share
/// this lock: those in a container without the file of the host have another one.
#[derive(Debug)]
pub(super) struct LockWatch {
    path: PathBuf,
    inotify: Inotify,
    /// `None` if the file was missing.
    file: RefCell<Option<WatchedLockFile>>,
    /// Incremented by each check that finds that the lock was opened.
    generation: Cell<u32>,
    /// Time of the last such check, at first that of the start.
    opened: Cell<Instant>,
    /// Time at which the lock was closed, unless it was opened since or the release was returned.
    closed: Cell<Option<Instant>>,
    /// Waits for events. Made at the first use, which is on a runtime.
    descriptor: OnceCell<Option<Receiver>>,
    /// First evidence that the lock is not shared.
    unshared: SetOnce<UnsharedLock>,
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
            opened: Cell::new(Instant::now()),
            closed: Cell::new(None),
            descriptor: OnceCell::new(),
            unshared: SetOnce::new(),
        };
        watch.watch_file();
        Ok(watch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a number that is the same in two calls only if no program opened the lock in
    /// between; `None` while the file is missing, and once the lock is known not to be shared.
    pub(super) fn generation(&self) -> Option<u32> {
        self.update();
        let is_watched = self.file.borrow().is_some();
        (is_watched && !self.unshared.initialized()).then(|| self.generation.get())
    }

    /// Notes that another program has changed rules since the last check of them.
    pub(super) fn rules_changed(&self) {
        self.update();
        let is_watched = self.file.borrow().is_some();
        if is_watched && self.opened.get().elapsed() > LONGEST_HOLD {
            self.found_unshared(UnsharedLock::Bypassed);
        }
    }

    /// Waits until there is evidence that the lock is not shared. It is looked for by the other
    /// functions.
    pub(super) async fn unshared(&self) -> UnsharedLock {
        *self.unshared.wait().await
    }

    /// Waits until programs have closed the lock, and none opens it at once again. Returns the time
    /// of the closing, at which the rules of all tables are committed. Cancel safe.
    pub(super) async fn released(&self) -> Instant {
        loop {
            self.update();
            let closed = self.closed.get();
            if let Some(at) = closed.filter(|at| at.elapsed() >= CLOSED_FOR) {
                self.closed.set(None);
                return at;
            }
            let due = async {
                match closed {
                    Some(at) => sleep_until(at + CLOSED_FOR).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = self.readable() => {}
            }
        }
    }

    /// Waits until there may be events; forever without a descriptor.
    async fn readable(&self) {
        let open = || {
            let descriptor = self.inotify.as_fd().try_clone_to_owned();
            Receiver::from_owned_fd_unchecked(descriptor.ok()?).ok()
        };
        match self.descriptor.get_or_init(open) {
            Some(descriptor) => linux::readable(descriptor).await,
            None => std::future::pending().await,
        }
    }

    fn found_unshared(&self, evidence: UnsharedLock) {
        // The first evidence is enough.
        let _ = self.unshared.set(evidence);
    }

    /// Notes openings of the lock since the last call, and watches the file that has the path now.
    pub(super) fn update(&self) {
        let events = self.drain();
        if events.contains(AddWatchFlags::IN_IGNORED) {
            // The kernel has removed the watch, and a new file may get the number of the old one.
            self.file.replace(None);
        }
        // A mount over the path, or over its folder, makes no event.
        let is_other = self.watch_file();
        if !events.is_empty() || is_other || self.file.borrow().is_none() {
            self.generation.set(self.generation.get().wrapping_add(1));
            self.opened.set(Instant::now());
        }
    }

    /// Watches the file that has the path now in place of the previous one. Returns whether it is
    /// another one.
    fn watch_file(&self) -> bool {
        let wanted =
            AddWatchFlags::IN_OPEN | AddWatchFlags::IN_CLOSE | AddWatchFlags::IN_DELETE_SELF;
        let found = std::fs::metadata(&self.path).ok();
        if found.as_ref().is_some_and(|found| found.nlink() == 0) {
            self.found_unshared(UnsharedLock::Deleted);
        }
        let id = found.map(|found| (found.dev(), found.ino()));
        if id.is_some() && id == self.file.borrow().as_ref().map(|file| file.id) {
            return false;
        }
        let watch = self.inotify.add_watch(&self.path, wanted).ok();
        let now = id
            .zip(watch)
            .map(|(id, watch)| WatchedLockFile { watch, id });
        let before = self.file.replace(now.clone());
        if let Some(before) = &before
            && now.as_ref().is_none_or(|now| now.watch != before.watch)
        {
            // Fails for a deleted file, whose watch the kernel has removed.
            let _ = self.inotify.rm_watch(before.watch);
        }
        before != now
    }

    /// Reads all pending events and returns their types, without closings, which it notes.
    fn drain(&self) -> AddWatchFlags {
        let mut kinds = AddWatchFlags::empty();
        while let Ok(events) = self.inotify.read_events() {
            for event in events {
                if event.mask.intersects(AddWatchFlags::IN_CLOSE) {
                    self.closed.set(Some(Instant::now()));
                } else {
                    self.closed.set(None);
                    kinds |= event.mask;
                }
            }
        }
        kinds
    }
}

#[cfg(test)]
#[path = "tests/lock.rs"]
mod tests;
