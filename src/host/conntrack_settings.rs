//! The kernel's table of connections: how large it may grow, and how long it remembers.
//!
//! Apart from [`sysctl`](super::sysctl), which knows files and no meanings. What is wanted is
//! worked out without looking at the machine; only then is it written, and only what differs, so
//! that a process without the right to write can follow one that had it.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/sysctls.go, `SetSysctls` (v1.36)
//!
//! Differs from upstream: the number of buckets is asked for by its sysctl and not by the parameter
//! of the module. It is the same number, and `/sys` need not be writable.

use std::time::Duration;

use super::sysctl::{SysctlError, Sysctls, TCP_BE_LIBERAL, Written};

/// Entries at most.
const CONNTRACK_MAX: &str = "net/netfilter/nf_conntrack_max";
/// Buckets of the hash table that entries are in.
const CONNTRACK_BUCKETS: &str = "net/netfilter/nf_conntrack_buckets";
const TCP_ESTABLISHED: &str = "net/netfilter/nf_conntrack_tcp_timeout_established";
const TCP_CLOSE_WAIT: &str = "net/netfilter/nf_conntrack_tcp_timeout_close_wait";
const UDP: &str = "net/netfilter/nf_conntrack_udp_timeout";
const UDP_STREAM: &str = "net/netfilter/nf_conntrack_udp_timeout_stream";

/// What the number of processors can lead to at most: a million entries are some 300 MB.
const MOST_SCALED: u32 = 1024 * 1024;

/// Entries for each bucket: a lookup compares half of them.
const ENTRIES_PER_BUCKET: u64 = 4;

/// Settings of the kernel's table of connections. Zero leaves one as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConntrackSettings {
    /// Entries for each processor.
    pub max_per_core: u32,
    /// Entries at least, if their number is to be set at all.
    pub min: u32,
    /// How long idle connections are remembered.
    pub tcp_established_timeout: Duration,
    /// How long half-closed ones are.
    pub tcp_close_wait_timeout: Duration,
    /// Packets outside of the TCP window pass.
    pub is_tcp_liberal: bool,
    /// How long unanswered UDP is remembered.
    pub udp_timeout: Duration,
    /// How long answered UDP is.
    pub udp_stream_timeout: Duration,
}

/// A setting of the kernel as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Below `/proc/sys`, with slashes.
    pub name: &'static str,
    /// The value, in the kernel's unit: entries, buckets, seconds or 1 for on.
    pub value: u64,
    /// What asks for it.
    pub flag: &'static str,
    extent: Extent,
}

/// Which other values will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Exactly,
    AtLeast,
}

impl ConntrackSettings {
    /// What they amount to on a machine with so many processors, in the order in which it is
    /// written: the table may be full, and a larger one is of use before anything else.
    pub fn wanted(&self, processors: u32) -> Vec<Wanted> {
        let per_core = "conntrack-max-per-core";
        let most = u64::from(self.most_entries(processors));
        let buckets = Wanted {
            extent: Extent::AtLeast,
            ..exactly(CONNTRACK_BUCKETS, most / ENTRIES_PER_BUCKET, per_core)
        };
        [
            (most > 0).then_some(exactly(CONNTRACK_MAX, most, per_core)),
            (most > 0).then_some(buckets),
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

    /// Entries at most; zero: as many as now. Beyond the limit for what processors ask for, what is
    /// asked for at least does not count, either.
    ///
    /// Upstream: pkg/proxy/conntrack/sysctls.go, `getConntrackMax` (v1.36)
    fn most_entries(&self, processors: u32) -> u32 {
        match self.max_per_core.saturating_mul(processors) {
            0 => 0,
            scaled if scaled > MOST_SCALED => MOST_SCALED,
            scaled => scaled.max(self.min),
        }
    }
}

const fn exactly(name: &'static str, value: u64, flag: &'static str) -> Wanted {
    Wanted {
        name,
        value,
        flag,
        extent: Extent::Exactly,
    }
}

/// Whole seconds; none leaves the setting as it is.
fn timeout(name: &'static str, timeout: Duration, flag: &'static str) -> Option<Wanted> {
    (!timeout.is_zero()).then(|| exactly(name, timeout.as_secs(), flag))
}

impl Wanted {
    /// Makes it so, unless it is so. `None`: nothing was written.
    ///
    /// # Errors
    ///
    /// The setting cannot be read, or differs and cannot be written.
    pub fn apply(&self, sysctls: &Sysctls) -> Result<Option<Written>, SysctlError> {
        let wanted = i64::try_from(self.value).unwrap_or(i64::MAX);
        match self.extent {
            Extent::AtLeast if sysctls.read(self.name)? >= wanted => Ok(None),
            Extent::AtLeast | Extent::Exactly => sysctls.change(self.name, wanted),
        }
    }
}

/// How many processors are switched on, whichever of them this process may use: the table is
/// everybody's.
///
/// Upstream: pkg/proxy/conntrack/sysctls.go, `detectNumCPU` (v1.36)
pub fn processors() -> u32 {
    let listed = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let counted = listed.and_then(|list| length(list.trim()));
    counted.unwrap_or_else(|| {
        let usable = std::thread::available_parallelism();
        usable.map_or(1, |usable| u32::try_from(usable.get()).unwrap_or(u32::MAX))
    })
}

/// The length of a list like `0-3,5`; `None` if it is none.
fn length(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |sum, range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        sum.checked_add(to.checked_sub(from)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: ConntrackSettings = ConntrackSettings {
        max_per_core: 0,
        min: 0,
        tcp_established_timeout: Duration::ZERO,
        tcp_close_wait_timeout: Duration::ZERO,
        is_tcp_liberal: false,
        udp_timeout: Duration::ZERO,
        udp_stream_timeout: Duration::ZERO,
    };

    /// Upstream: pkg/proxy/conntrack/sysctls_test.go, `TestGetConntrackMax` (v1.36)
    #[test]
    fn entries_grow_with_processors_between_two_limits() {
        let most = |max_per_core, min, processors| {
            let settings = ConntrackSettings {
                max_per_core,
                min,
                ..NOTHING
            };
            settings.most_entries(processors)
        };
        assert_eq!(most(0, 0, 4), 0);
        assert_eq!(most(0, 131_072, 4), 0);
        assert_eq!(most(32_768, 131_072, 2), 131_072);
        assert_eq!(most(32_768, 131_072, 8), 262_144);
        assert_eq!(most(32_768, 0, 32), 1_048_576);
        assert_eq!(most(32_768, 131_072, 33), 1_048_576);
        assert_eq!(most(32_768, 2_000_000, 33), 1_048_576);
        assert_eq!(most(32_768, 2_000_000, 32), 2_000_000);
        assert_eq!(most(u32::MAX, 0, 2), 1_048_576);
    }

    #[test]
    fn what_is_zero_is_left_alone_and_the_rest_has_an_order() {
        assert_eq!(NOTHING.wanted(4), []);
        let all = ConntrackSettings {
            max_per_core: 10,
            min: 99,
            tcp_established_timeout: Duration::from_secs(86_400),
            tcp_close_wait_timeout: Duration::from_millis(3_600_900),
            is_tcp_liberal: true,
            udp_timeout: Duration::from_secs(30),
            udp_stream_timeout: Duration::from_secs(180),
        };
        let wanted: Vec<_> = all
            .wanted(4)
            .iter()
            .map(|one| (one.name.trim_start_matches("net/netfilter/"), one.value))
            .collect();
        assert_eq!(
            wanted,
            [
                ("nf_conntrack_max", 99),
                ("nf_conntrack_buckets", 24),
                ("nf_conntrack_tcp_timeout_established", 86_400),
                ("nf_conntrack_tcp_timeout_close_wait", 3600),
                ("nf_conntrack_tcp_be_liberal", 1),
                ("nf_conntrack_udp_timeout", 30),
                ("nf_conntrack_udp_timeout_stream", 180),
            ]
        );
    }

    #[test]
    fn only_what_differs_is_written_and_buckets_may_be_more() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::create_dir_all(path("net/netfilter")).unwrap();
        let set = |name, text: &str| std::fs::write(path(name), text).unwrap();
        let settings = ConntrackSettings {
            max_per_core: 100,
            ..NOTHING
        };
        let sysctls = Sysctls::new(root.path());
        let apply = || -> Vec<String> {
            let wanted = settings.wanted(4).into_iter();
            let written = wanted.filter_map(|one| one.apply(&sysctls).unwrap());
            written.map(|written| written.to_string()).collect()
        };
        set(CONNTRACK_MAX, "500\n");
        set(CONNTRACK_BUCKETS, "99\n");
        assert_eq!(
            apply(),
            [
                "net/netfilter/nf_conntrack_max: 500 -> 400",
                "net/netfilter/nf_conntrack_buckets: 99 -> 100",
            ]
        );
        assert_eq!(apply(), [""; 0]);
        set(CONNTRACK_BUCKETS, "4096\n");
        assert_eq!(apply(), [""; 0]);
        std::fs::remove_file(path(CONNTRACK_BUCKETS)).unwrap();
        let error = settings.wanted(4)[1].apply(&sysctls).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no sysctl `net/netfilter/nf_conntrack_buckets`\nhint: modprobe nf_conntrack"
        );
    }

    #[test]
    fn processors_are_counted_in_ranges() {
        assert_eq!(length("0"), Some(1));
        assert_eq!(length("0-3,5,8-9"), Some(7));
        assert_eq!(length(""), None);
        assert_eq!(length("3-1"), None);
        assert!(processors() >= 1);
    }
}
