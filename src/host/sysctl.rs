//! Reads and writes kernel settings under `/proc/sys`.
//!
//! Errors name the setting: in a container `/proc/sys` is often read-only, and "permission denied"
//! alone does not say what to fix. Only values that differ are written, so that a process without
//! the right to write can run after a privileged one.

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::path::{Path, PathBuf};

use crate::net::IpFamily;

/// Allows routing of packets from and to 127.0.0.0/8, for NodePorts on localhost.
pub(crate) const ROUTE_LOCALNET: &str = "net/ipv4/conf/all/route_localnet";
/// Makes conntrack accept packets outside the TCP window.
pub(crate) const TCP_BE_LIBERAL: &str = "net/netfilter/nf_conntrack_tcp_be_liberal";
/// Setting that is 1 where IPv6 is disabled.
pub(crate) const DISABLE_IPV6: &str = "net/ipv6/conf/all/disable_ipv6";

/// A setting that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// The setting does not exist; its kernel module may not be loaded.
    #[error("sysctl `{name}` does not exist{}", module_hint(name))]
    Missing {
        /// Path below `/proc/sys`.
        name: String,
    },
    /// The setting exists and cannot be read or written.
    #[error("cannot {verb} sysctl `{name}`: {cause}{hint}")]
    Denied {
        /// `read` or `write`.
        verb: &'static str,
        /// Path below `/proc/sys`.
        name: String,
        /// Error of the system call, or a value that is not a number.
        cause: io::Error,
        /// Line that begins with a newline; empty if the cause implies it.
        hint: &'static str,
    },
}

const UNPRIVILEGED: &str =
    "\nhint: run privileged, if only once with --init-only, or set it on the host beforehand";
const OTHER_NAMESPACE: &str = "\nhint: run in the network namespace of the host (hostNetwork: true), or set it there \
     beforehand; privileges do not suffice";

/// Returns the hint for an error of a system call; permissions are those of a setting to write.
fn hint(cause: &io::Error, permissions: Option<&Permissions>) -> &'static str {
    match cause.kind() {
        // The kernel makes settings of the whole host, such as nf_conntrack_max, read-only in all
        // other network namespaces, even for root.
        io::ErrorKind::PermissionDenied if permissions.is_some_and(Permissions::readonly) => {
            OTHER_NAMESPACE
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => UNPRIVILEGED,
        _ => "",
    }
}

fn module_hint(name: &str) -> &'static str {
    if name.contains("nf_conntrack") {
        "\nhint: run `modprobe nf_conntrack`"
    } else {
        ""
    }
}

/// A setting that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysctlChange {
    /// Path below `/proc/sys`.
    pub name: String,
    /// Value before the write.
    pub before: i64,
    /// Value read after the write: the kernel may round or limit the value that was written.
    pub now: i64,
}

impl fmt::Display for SysctlChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.name, self.before, self.now)
    }
}

/// Result of making a setting or a rule as desired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// Something was written or removed.
    Yes,
    /// Nothing had to be written.
    No,
}

/// Kernel settings below one folder. Names are relative to it, with slashes or dots.
#[derive(Debug, Clone)]
pub struct Sysctls {
    root: PathBuf,
}

impl Default for Sysctls {
    /// Returns the settings of this node; those below `net` belong to this network namespace.
    fn default() -> Self {
        Self::new("/proc/sys")
    }
}

impl Sysctls {
    /// Returns settings below `root`; tests use a folder of their own.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the value of a setting that holds one number.
    pub fn read(&self, name: &str) -> Result<i64, SysctlError> {
        let failed = |cause| self.denied("read", name, cause);
        let text = std::fs::read_to_string(self.path(name)).map_err(failed)?;
        let text = text.trim();
        text.parse().map_err(|_| {
            let cause = format!("`{text}` is not a valid integer");
            failed(io::Error::new(io::ErrorKind::InvalidData, cause))
        })
    }

    /// Writes a setting.
    pub fn write(&self, name: &str, value: i64) -> Result<(), SysctlError> {
        // Opened for writing only: a missing setting must not become a file.
        std::fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.path(name))
            .and_then(|mut file| io::Write::write_all(&mut file, value.to_string().as_bytes()))
            .map_err(|cause| self.denied("write", name, cause))
    }

    /// Checks that a setting has this value or can be written, and writes nothing.
    pub fn check(&self, name: &str, value: i64) -> Result<(), SysctlError> {
        if self.read(name)? == value {
            return Ok(());
        }
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .open(self.path(name));
        opened
            .map(drop)
            .map_err(|cause| self.denied("write", name, cause))
    }

    /// Writes a setting unless it has the value already: that works without the right to write.
    pub fn ensure(&self, name: &str, value: i64) -> Result<Changed, SysctlError> {
        let written = self.change(name, value)?;
        Ok(written.map_or(Changed::No, |_| Changed::Yes))
    }

    /// Writes a setting unless it has the value already, and returns the change; `None` if nothing
    /// was written.
    pub fn change(&self, name: &str, value: i64) -> Result<Option<SysctlChange>, SysctlError> {
        let before = self.read(name)?;
        if before == value {
            return Ok(None);
        }
        self.write(name, value)?;
        Ok(Some(SysctlChange {
            name: name.to_owned(),
            before,
            now: self.read(name)?,
        }))
    }

    /// Reports whether this node cannot have addresses of a family.
    ///
    /// Upstream: `cmd/kube-proxy/app/server_linux.go`, `platformCheckSupported` (v1.37)
    pub fn lacks(&self, family: IpFamily) -> bool {
        let has_ipv6 =
            || Path::new("/proc/net/if_inet6").exists() && self.read(DISABLE_IPV6).ok() != Some(1);
        family == IpFamily::V6 && !has_ipv6()
    }

    /// Dots separate like slashes, unless the name has a slash: interface names can contain dots.
    fn path(&self, name: &str) -> PathBuf {
        if name.contains('/') {
            self.root.join(name)
        } else {
            self.root.join(name.replace('.', "/"))
        }
    }

    fn denied(&self, verb: &'static str, name: &str, cause: io::Error) -> SysctlError {
        if cause.kind() == io::ErrorKind::NotFound {
            let name = name.to_owned();
            return SysctlError::Missing { name };
        }
        let file = std::fs::metadata(self.path(name)).ok();
        let permissions = file.map(|file| file.permissions());
        SysctlError::Denied {
            verb,
            name: name.to_owned(),
            hint: hint(&cause, permissions.filter(|_| verb == "write").as_ref()),
            cause,
        }
    }
}

#[cfg(test)]
#[path = "tests/sysctl.rs"]
mod tests;
