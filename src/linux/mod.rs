//! Interfaces of the Linux kernel: netlink sockets, inotify and some constants. On other systems,
//! where commands read other nodes, each is there as well and fails.
//!
//! Kept in one place so that no other module has two forms.

use std::io;

use tokio::net::unix::pipe::Receiver;

#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod kernel;
#[cfg(target_os = "linux")]
mod kernel;

#[cfg(feature = "tools")]
pub(crate) use kernel::unshare_network;
pub(crate) use kernel::{CLOEXEC, SYS_FLOCK, THREAD, inotify, netlink, set_tcp_user_timeout};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetlinkProtocol {
    /// Interfaces, addresses and routes.
    Route,
    /// Subsystems of netfilter.
    Netfilter,
}

/// Waits until a descriptor has something to read. The caller reads all of it next. Cancel safe.
///
/// Tokio's type for any descriptor takes unsafe code, and it has none for netlink and inotify. The
/// one for the end of a pipe waits for any descriptor.
pub(crate) async fn readable(descriptor: &Receiver) {
    if descriptor.readable().await.is_err() {
        // The runtime is shutting down.
        std::future::pending::<()>().await;
    }
    // Otherwise the runtime would not wait for more.
    drop(descriptor.try_io(|| Err::<(), _>(io::ErrorKind::WouldBlock.into())));
}
