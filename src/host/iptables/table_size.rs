//! Reads the number of rules and the size of a legacy table from the kernel.
//!
//! Kept separate because it contains the only unsafe code of the program: no crate supports these
//! socket options.
//!
//! # Source
//!
//! Linux: include/uapi/linux/netfilter_ipv4/ip_tables.h, `struct ipt_getinfo`;
//! include/uapi/linux/netfilter_ipv6/ip6_tables.h, `struct ip6t_getinfo`, which is the same

use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockType, socket};

use crate::linux::CLOEXEC;
use crate::net::IpFamily;
use crate::rules::Table;

/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: libc::c_int = 64;

/// Entries and bytes of a table. A deletion, an insertion and a flush change both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableSize {
    /// Rules, and for each chain its header and its end.
    pub(super) entries: u32,
    bytes: u32,
}

/// `struct ipt_getinfo`.
#[repr(C)]
#[derive(Default)]
struct IptGetinfo {
    name: [u8; 32],
    valid_hooks: u32,
    hook_entry: [u32; 5],
    underflow: [u32; 5],
    num_entries: u32,
    size: u32,
}

/// Opens a socket for [`table_size`].
pub(super) fn open(family: IpFamily) -> Result<OwnedFd, Errno> {
    let domain = match family {
        IpFamily::V4 => AddressFamily::Inet,
        IpFamily::V6 => AddressFamily::Inet6,
    };
    // Any socket of the family works: the option is netfilter's.
    socket(domain, SockType::Datagram, CLOEXEC, None)
}

/// Reads the size of a table; `None` if the kernel has no such table.
///
/// # Errors
///
/// The kernel denies it, usually because the capability `NET_ADMIN` is missing.
pub(super) fn table_size(
    socket: &OwnedFd,
    family: IpFamily,
    table: Table,
) -> Result<Option<TableSize>, Errno> {
    let mut info = IptGetinfo::default();
    for (to, from) in info.name.iter_mut().zip(table.as_str().bytes()) {
        *to = from;
    }
    match get_info(socket, family, &mut info) {
        Ok(()) => Ok(Some(TableSize {
            entries: info.num_entries,
            bytes: info.size,
        })),
        Err(Errno::ENOENT) => Ok(None),
        Err(cause) => Err(cause),
    }
}

#[expect(
    unsafe_code,
    reason = "no crate knows the socket option, whose argument is read and written"
)]
fn get_info(socket: &OwnedFd, family: IpFamily, info: &mut IptGetinfo) -> Result<(), Errno> {
    let level = match family {
        IpFamily::V4 => libc::IPPROTO_IP,
        IpFamily::V6 => libc::IPPROTO_IPV6,
    };
    let mut length =
        libc::socklen_t::try_from(size_of::<IptGetinfo>()).map_err(|_| Errno::EINVAL)?;
    // SAFETY: `info` is a live, exclusively borrowed struct of plain integers with the layout of
    // the kernel's, and `length` is its size: the kernel refuses any other size, and writes no more
    // than that. The descriptor is open for as long as `socket` is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            GET_INFO,
            std::ptr::from_mut(info).cast(),
            &raw mut length,
        )
    };
    Errno::result(result).map(drop)
}
