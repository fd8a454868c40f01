//! Interfaces on Linux.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::libc;
pub(crate) use nix::sys::inotify;
use nix::sys::resource::UsageWho;
use nix::sys::socket::{SockFlag, setsockopt, sockopt};

/// Flag of a socket that programs do not inherit.
pub(crate) const CLOEXEC: SockFlag = SockFlag::SOCK_CLOEXEC;

/// Number of the system call `flock`.
pub(crate) const SYS_FLOCK: libc::c_long = libc::SYS_flock;

/// Usage of resources by this thread.
pub(crate) const THREAD: UsageWho = UsageWho::RUSAGE_THREAD;

/// Sets the maximum time in milliseconds without an acknowledgment of sent data.
pub(crate) fn set_tcp_user_timeout(socket: &impl AsFd, milliseconds: u32) -> Result<(), Errno> {
    setsockopt(socket, sockopt::TcpUserTimeout, &milliseconds)
}

/// Moves this thread into a network namespace of its own, which ends with the thread.
pub(crate) fn unshare_network() -> Result<(), Errno> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
}

pub(crate) mod netlink {
    use std::os::fd::{AsRawFd, OwnedFd};

    use nix::errno::Errno;
    use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
    use nix::sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, sendto,
        setsockopt, socket,
    };

    use super::super::NetlinkProtocol;

    pub(crate) fn open(protocol: NetlinkProtocol) -> Result<OwnedFd, Errno> {
        open_with(protocol, SockFlag::empty())
    }

    fn open_with(protocol: NetlinkProtocol, flags: SockFlag) -> Result<OwnedFd, Errno> {
        socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | flags,
            match protocol {
                NetlinkProtocol::Route => SockProtocol::NetlinkRoute,
                NetlinkProtocol::Netfilter => SockProtocol::NetlinkNetFilter,
            },
        )
    }

    /// Opens a non-blocking socket that receives the notifications of a multicast group.
    ///
    /// # Errors
    ///
    /// For netfilter mostly `EPERM`: the capability `NET_ADMIN` is missing.
    pub(crate) fn subscribe(
        protocol: NetlinkProtocol,
        group: u32,
        buffer_bytes: usize,
    ) -> Result<OwnedFd, Errno> {
        let socket = open_with(protocol, SockFlag::SOCK_NONBLOCK)?;
        // Without the right to exceed the system's limit, the buffer is as large as that allows.
        if setsockopt(&socket, RcvBufForce, &buffer_bytes).is_err() {
            setsockopt(&socket, RcvBuf, &buffer_bytes)?;
        }
        let groups = 1_u32.checked_shl(group - 1).ok_or(Errno::EINVAL)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(socket)
    }

    pub(crate) fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
        let kernel = NetlinkAddr::new(0, 0);
        sendto(socket.as_raw_fd(), bytes, &kernel, MsgFlags::empty()).map(drop)
    }
}
