//! How many files and sockets the process may have open.
//!
//! Apart because the usual limit, made for programs of the last century, is 1024, and each
//! health-check node port is a socket in each family.
//!
//! # Source
//!
//! Upstream: Go's standard library does so unasked: src/os/rlimit.go (Go 1.26)

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// As many as the system allows without asking anybody. The programs that are started may have as
/// many.
pub fn raise_open_files() -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(())
}
