//! A network namespace to try rules in.

use std::{io, thread};

use crate::linux;

/// Runs work on a thread in a network namespace of its own, in which programs have no rules but
/// theirs. The namespace ends with the thread, and with it all rules in it.
///
/// # Errors
///
/// The namespace cannot be created: mostly `EPERM`, without the capability `SYS_ADMIN`.
pub(crate) fn in_own_network<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let in_namespace = || {
        linux::unshare_network()?;
        Ok(work())
    };
    thread::scope(|scope| {
        let done = scope.spawn(in_namespace).join();
        done.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    })
}
