//! Reuse of the thread's socket.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use super::*;

/// Returns the inode of a socket: descriptors are reused, inodes are not.
fn identity(socket: &OwnedFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap()
}

#[test]
fn one_socket_is_kept_until_it_fails() {
    let current = || with_socket(|socket| Ok(identity(socket)));
    let first = current().unwrap();
    assert_eq!(current(), Ok(first.clone()));
    let failed = with_socket(|_| Err::<(), _>(Errno::ENOBUFS));
    assert_eq!(failed, Err(Errno::ENOBUFS));
    assert_ne!(current(), Ok(first));
}
