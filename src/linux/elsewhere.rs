//! Interfaces on other systems: nothing can be opened.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::UsageWho;
use nix::sys::socket::SockFlag;

pub(crate) const CLOEXEC: SockFlag = SockFlag::empty();

/// No system call has this number.
pub(crate) const SYS_FLOCK: libc::c_long = -1;

/// Usage by the whole process, which is close enough for what runs there.
pub(crate) const THREAD: UsageWho = UsageWho::RUSAGE_SELF;

pub(crate) fn set_tcp_user_timeout(_: &impl AsFd, _: u32) -> Result<(), Errno> {
    Err(Errno::ENOSYS)
}

pub(crate) fn unshare_network() -> Result<(), Errno> {
    Err(Errno::ENOSYS)
}

pub(crate) mod netlink {
    use std::os::fd::OwnedFd;

    use nix::errno::Errno;

    use super::super::NetlinkProtocol;

    pub(crate) fn open(_: NetlinkProtocol) -> Result<OwnedFd, Errno> {
        Err(Errno::ENOSYS)
    }

    pub(crate) fn subscribe(_: NetlinkProtocol, _: u32, _: usize) -> Result<OwnedFd, Errno> {
        Err(Errno::ENOSYS)
    }

    pub(crate) fn send(_: &OwnedFd, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
}

/// The part of `nix::sys::inotify` that is used.
pub(crate) mod inotify {
    use std::ffi::OsString;
    use std::ops::{BitOr, BitOrAssign};
    use std::os::fd::{AsFd, BorrowedFd};

    use nix::NixPath;
    use nix::errno::Errno;

    /// Instance, of which there is none.
    #[derive(Debug)]
    pub(crate) enum Inotify {}

    impl Inotify {
        pub(crate) fn init(_: InitFlags) -> Result<Self, Errno> {
            Err(Errno::ENOSYS)
        }

        pub(crate) fn add_watch<P: ?Sized + NixPath>(
            &self,
            _: &P,
            _: AddWatchFlags,
        ) -> Result<WatchDescriptor, Errno> {
            match *self {}
        }

        pub(crate) fn rm_watch(&self, _: WatchDescriptor) -> Result<(), Errno> {
            match *self {}
        }

        pub(crate) fn read_events(&self) -> Result<Vec<InotifyEvent>, Errno> {
            match *self {}
        }
    }

    impl AsFd for Inotify {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match *self {}
        }
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub(crate) enum WatchDescriptor {}

    #[derive(Debug)]
    pub(crate) struct InotifyEvent {
        pub(crate) wd: WatchDescriptor,
        pub(crate) mask: AddWatchFlags,
        pub(crate) name: Option<OsString>,
    }

    /// Flags without values, as nothing reads them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Flags;

    pub(crate) use Flags as InitFlags;
    pub(crate) use Flags as AddWatchFlags;

    impl Flags {
        pub(crate) const IN_NONBLOCK: Self = Self;
        pub(crate) const IN_CLOEXEC: Self = Self;
        pub(crate) const IN_OPEN: Self = Self;
        pub(crate) const IN_CLOSE: Self = Self;
        pub(crate) const IN_MODIFY: Self = Self;
        pub(crate) const IN_ATTRIB: Self = Self;
        pub(crate) const IN_CREATE: Self = Self;
        pub(crate) const IN_DELETE: Self = Self;
        pub(crate) const IN_MOVE: Self = Self;
        pub(crate) const IN_DELETE_SELF: Self = Self;
        pub(crate) const IN_MOVE_SELF: Self = Self;
        pub(crate) const IN_ONLYDIR: Self = Self;
        pub(crate) const IN_IGNORED: Self = Self;

        pub(crate) fn empty() -> Self {
            Self
        }

        pub(crate) fn is_empty(self) -> bool {
            true
        }

        pub(crate) fn contains(self, _: Self) -> bool {
            false
        }

        pub(crate) fn intersects(self, _: Self) -> bool {
            false
        }
    }

    impl BitOr for Flags {
        type Output = Self;

        fn bitor(self, _: Self) -> Self {
            Self
        }
    }

    impl BitOrAssign for Flags {
        fn bitor_assign(&mut self, _: Self) {}
    }
}
