//! Size and timeouts of the conntrack table: the sysctls that flags ask for, and their values.
//!
//! The values are computed first, without reading the node.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/sysctls.go, `SetSysctls` (v1.37)
//!
//! Differs from upstream: the number of buckets is set by its sysctl and not by the parameter of
//! the module. Both set the same number, and `/sys` need not be writable.

use std::time::Duration;

use super::sysctl::{SysctlChange, SysctlError, Sysctls, TCP_BE_LIBERAL};

/// Maximum number of entries.
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
    /// Maximum entries per CPU core.
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
#[path = "tests/conntrack_settings.rs"]
mod tests;
