//! Reads and writes kernel settings under `/proc/sys`, and computes those of conntrack.
//!
//! Errors name the setting: in a container `/proc/sys` is often read-only, and "permission denied"
//! alone does not say what to fix. Only values that differ are written, so that a process without
//! the right to write can run after a privileged one.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/sysctls.go, `SetSysctls` (v1.37)
//!
//! Differs from upstream: the number of conntrack buckets is set by its sysctl and not by the
//! parameter of the module. Both set the same number, and `/sys` need not be writable.

use std::fs::Permissions;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysctlChange {
    /// Path below `/proc/sys`.
    pub name: String,
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

const CONNTRACK_MAX: &str = "net/netfilter/nf_conntrack_max";
/// Number of buckets of the hash table of entries.
const CONNTRACK_BUCKETS: &str = "net/netfilter/nf_conntrack_buckets";
const TCP_ESTABLISHED: &str = "net/netfilter/nf_conntrack_tcp_timeout_established";
const TCP_CLOSE_WAIT: &str = "net/netfilter/nf_conntrack_tcp_timeout_close_wait";
const UDP: &str = "net/netfilter/nf_conntrack_udp_timeout";
const UDP_STREAM: &str = "net/netfilter/nf_conntrack_udp_timeout_stream";

/// Limit for the maximum derived from the number of CPU cores: a million entries take some 300 MB.
const MOST_SCALED: u32 = 1024 * 1024;

/// Entries per bucket: a lookup compares half of them.
const ENTRIES_PER_BUCKET: u64 = 4;

/// Settings of the conntrack table. Zero leaves the kernel setting unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConntrackSettings {
    pub max_per_core: u32,
    /// Lower limit of the maximum; ignored if `max_per_core` is 0.
    pub min: u32,
    /// Timeout of idle TCP connections.
    pub tcp_established_timeout: Duration,
    /// Timeout of half-closed TCP connections.
    pub tcp_close_wait_timeout: Duration,
    /// Accepts packets outside of the TCP window.
    pub is_tcp_liberal: bool,
    /// Timeout of UDP entries without replies.
    pub udp_timeout: Duration,
    /// Timeout of UDP entries with replies.
    pub udp_stream_timeout: Duration,
}

/// A kernel setting with its desired value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DesiredSysctl {
    /// Path below `/proc/sys`.
    pub name: &'static str,
    /// Value in the kernel's unit: entries, buckets, seconds or 1 for on.
    pub value: u64,
    /// Flag that the value comes from, without dashes.
    pub flag: &'static str,
    bound: Bound,
}

/// Values besides the desired one that need no write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Exactly,
    AtLeast,
}

impl ConntrackSettings {
    /// Returns the desired sysctls for a node with this many processors, in the order of writing:
    /// the maximum comes first, because the table may be full.
    pub fn desired_sysctls(&self, processors: u32) -> Vec<DesiredSysctl> {
        let per_core = "conntrack-max-per-core";
        let most = u64::from(self.most_entries(processors));
        // A node that was tuned higher, by hand or by its distribution, would lose entries.
        let at_least = |name, value| DesiredSysctl {
            bound: Bound::AtLeast,
            ..exactly(name, value, per_core)
        };
        [
            (most > 0).then(|| at_least(CONNTRACK_MAX, most)),
            (most > 0).then(|| at_least(CONNTRACK_BUCKETS, most / ENTRIES_PER_BUCKET)),
            timeout(
                TCP_ESTABLISHED,
                self.tcp_established_timeout,
                "conntrack-tcp-timeout-established",
            ),
            timeout(
                TCP_CLOSE_WAIT,
                self.tcp_close_wait_timeout,
                "conntrack-tcp-timeout-close-wait",
            ),
            self.is_tcp_liberal
                .then_some(exactly(TCP_BE_LIBERAL, 1, "conntrack-tcp-be-liberal")),
            timeout(UDP, self.udp_timeout, "conntrack-udp-timeout"),
            timeout(
                UDP_STREAM,
                self.udp_stream_timeout,
                "conntrack-udp-timeout-stream",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the desired maximum of entries; 0 leaves it unchanged. If the number of processors
    /// leads beyond [`MOST_SCALED`], `min` is ignored.
    ///
    /// Upstream: pkg/proxy/conntrack/sysctls.go, `getConntrackMax` (v1.37)
    fn most_entries(&self, processors: u32) -> u32 {
        match self.max_per_core.saturating_mul(processors) {
            0 => 0,
            scaled if scaled > MOST_SCALED => MOST_SCALED,
            scaled => scaled.max(self.min),
        }
    }
}

const fn exactly(name: &'static str, value: u64, flag: &'static str) -> DesiredSysctl {
    DesiredSysctl {
        name,
        value,
        flag,
        bound: Bound::Exactly,
    }
}

/// Returns a desired timeout in whole seconds; `None` for zero.
fn timeout(name: &'static str, timeout: Duration, flag: &'static str) -> Option<DesiredSysctl> {
    (!timeout.is_zero()).then(|| exactly(name, timeout.as_secs(), flag))
}

impl DesiredSysctl {
    /// Writes the desired value if the current one does not meet it; `None` if nothing was
    /// written.
    ///
    /// # Errors
    ///
    /// The setting cannot be read, or does not meet the desired value and cannot be written.
    pub fn apply(&self, sysctls: &Sysctls) -> Result<Option<SysctlChange>, SysctlError> {
        let desired = i64::try_from(self.value).unwrap_or(i64::MAX);
        match self.bound {
            Bound::AtLeast if sysctls.read(self.name)? >= desired => Ok(None),
            Bound::AtLeast | Bound::Exactly => sysctls.change(self.name, desired),
        }
    }
}

/// Returns the number of CPUs that are online, also of those that this process may not use: the
/// conntrack table is shared by the whole node.
///
/// Upstream: pkg/proxy/conntrack/sysctls.go, `DetectNumCPU` (v1.37)
pub(crate) fn processors() -> u32 {
    let listed = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let counted = listed.and_then(|list| length(list.trim()));
    counted.unwrap_or_else(|| {
        let usable = std::thread::available_parallelism();
        usable.map_or(1, |usable| u32::try_from(usable.get()).unwrap_or(u32::MAX))
    })
}

/// Returns the number of CPUs in a list such as `0-3,5`; `None` if the text is not a valid list.
fn length(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |sum, range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        sum.checked_add(to.checked_sub(from)?.checked_add(1)?)
    })
}

#[cfg(test)]
#[path = "tests/sysctl.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/conntrack_settings.rs"]
mod conntrack_settings_tests;
