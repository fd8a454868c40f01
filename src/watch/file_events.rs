//! Waits for events of files by inotify, and until no other event follows them.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{InitFlags, Inotify, InotifyEvent};
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

/// Time without a change after which files are read: more than an editor or `cp` takes between two
/// writes. If it were shorter, incomplete files would be read more often; a longer one would delay
/// every change.
const QUIET_TIME: Duration = Duration::from_millis(200);

/// Maximum wait for [`QUIET_TIME`], while changes follow each other.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(2);

/// Interval of polling, for file systems without notifications, like NFS.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Inotify instance that a task of the runtime can wait for.
#[derive(Debug)]
pub(crate) struct FileEvents {
    pub inotify: Inotify,
    /// Duplicate of the descriptor. Tokio has no type for inotify; this one waits for any
    /// descriptor without unsafe code.
    readable: Receiver,
}

impl FileEvents {
    /// # Errors
    ///
    /// The user has too many inotify instances.
    pub(crate) fn new() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let descriptor = inotify.as_fd().try_clone_to_owned()?;
        Ok(Self {
            inotify,
            readable: Receiver::from_owned_fd_unchecked(descriptor)?,
        })
    }

    /// Waits until there are events, all of which the caller has to read.
    pub(crate) async fn readable(&self) {
        if self.readable.readable().await.is_err() {
            // The runtime is shutting down.
            std::future::pending::<()>().await;
        }
        // All events are read next, so the runtime has to wait for the next one.
        let blocked = self
            .readable
            .try_io(|| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        drop(blocked);
    }

    /// Reads all events.
    ///
    /// # Errors
    ///
    /// Events may be missing.
    pub(crate) fn read(&self) -> Result<Vec<InotifyEvent>, Errno> {
        let mut all = Vec::new();
        loop {
            match self.inotify.read_events() {
                Ok(events) => all.extend(events),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(all),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Wait after a change until none has followed for [`QUIET_TIME`].
pub(crate) struct QuietWait {
    start: Instant,
    last: Instant,
}

impl QuietWait {
    /// Starts with a change.
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self {
            start: now,
            last: now,
        }
    }

    /// Notes another change.
    pub(crate) fn changed(&mut self) {
        self.last = Instant::now();
    }

    /// Returns the time left unless there is another change; `None` if there is none.
    pub(crate) fn rest(&self) -> Option<Duration> {
        let end = (self.last + QUIET_TIME).min(self.start + MAX_QUIET_WAIT);
        let rest = end.saturating_duration_since(Instant::now());
        (!rest.is_zero()).then_some(rest)
    }
}
