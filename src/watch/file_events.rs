//! Waits for events of files by inotify.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use tokio::net::unix::pipe::Receiver;

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

    /// Watches a directory for changes of its entries and of itself. Returns the same descriptor
    /// for a directory that is watched already.
    pub(crate) fn watch(&self, directory: &Path) -> nix::Result<WatchDescriptor> {
        let changes = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        self.inotify.add_watch(directory, changes)
    }

    /// Waits until there are events, and reads all of them.
    pub(crate) async fn changed(&self) {
        if self.readable.readable().await.is_err() {
            // The runtime is shutting down.
            std::future::pending::<()>().await;
        }
        // All events are read next, so the runtime has to wait for the next one.
        let blocked = self
            .readable
            .try_io(|| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        drop(blocked);
        // All events count alike. Any other error may mean that some are lost: a change as well.
        while matches!(self.inotify.read_events(), Ok(_) | Err(Errno::EINTR)) {}
    }
}
