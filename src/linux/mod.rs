//! Interfaces of the Linux kernel: netlink sockets, inotify and some constants. On other systems,
//! where commands read other nodes, each is there as well and fails.
//!
//! Kept in one place so that no other module has two forms.

#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod kernel;
#[cfg(target_os = "linux")]
mod kernel;

#[cfg(feature = "tools")]
pub(crate) use kernel::unshare_network;
pub(crate) use kernel::{CLOEXEC, SYS_FLOCK, THREAD, inotify, netlink, set_tcp_user_timeout};

/// Protocol of a netlink socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetlinkProtocol {
    /// Interfaces, addresses and routes.
    Route,
    /// Subsystems of netfilter.
    Netfilter,
}
