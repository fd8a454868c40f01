//! The `process_*` metrics every Prometheus client has.
//!
//! Apart, and not the one the `prometheus` crate has, because that one cuts CPU time to whole
//! seconds: a daemon that uses milliseconds would look idle for hours.

use std::collections::HashMap;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, Metric, MetricFamily, MetricType};

/// Unit of the start time in `/proc/self/stat`; 100 on every architecture this can run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Which field of `/proc/self/stat` after the program name holds the start time (proc(5) counts
/// it as 22).
const START_TIME: usize = 19;

/// Name and HELP, as client libraries have them.
const CPU: (&str, &str) = (
    "process_cpu_seconds_total",
    "Total user and system CPU time spent in seconds.",
);
const RESIDENT: (&str, &str) = (
    "process_resident_memory_bytes",
    "Resident memory size in bytes.",
);
const VIRTUAL: (&str, &str) = (
    "process_virtual_memory_bytes",
    "Virtual memory size in bytes.",
);
const VIRTUAL_MAX: (&str, &str) = (
    "process_virtual_memory_max_bytes",
    "Maximum amount of virtual memory available in bytes.",
);
const RECEIVED: (&str, &str) = (
    "process_network_receive_bytes_total",
    "Number of bytes received by the process over the network.",
);
const SENT: (&str, &str) = (
    "process_network_transmit_bytes_total",
    "Number of bytes sent by the process over the network.",
);
const OPEN_FDS: (&str, &str) = ("process_open_fds", "Number of open file descriptors.");
const MAX_FDS: (&str, &str) = (
    "process_max_fds",
    "Maximum number of open file descriptors.",
);
pub(super) const START: (&str, &str) = (
    "process_start_time_seconds",
    "Start time of the process since unix epoch in seconds.",
);

/// All of them, in the order in which they are collected.
const ALL: [(&str, &str); 9] = [
    CPU,
    RESIDENT,
    VIRTUAL,
    VIRTUAL_MAX,
    RECEIVED,
    SENT,
    OPEN_FDS,
    MAX_FDS,
    START,
];

/// Reads this process's use of the machine at each scrape. What cannot be read is left out.
#[derive(Debug)]
pub struct ProcessCollector {
    descs: Vec<Desc>,
    /// Read once: a later change of the wall clock must not look like a restart.
    start: Option<f64>,
}

impl ProcessCollector {
    /// Of this process.
    pub fn new() -> prometheus::Result<Self> {
        let descs = ALL.map(|(name, help)| {
            Desc::new(name.to_owned(), help.to_owned(), Vec::new(), HashMap::new())
        });
        Ok(Self {
            descs: descs.into_iter().collect::<Result<_, _>>()?,
            start: start_time(),
        })
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        // Of the network namespace, which is the node's: Go's client library counts the same.
        let net = std::fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
        [
            cpu_seconds().map(|value| counter(CPU, value)),
            kilobytes(&status, "VmRSS:").map(|value| gauge(RESIDENT, value)),
            kilobytes(&status, "VmSize:").map(|value| gauge(VIRTUAL, value)),
            limit(Resource::RLIMIT_AS).map(|value| gauge(VIRTUAL_MAX, value)),
            ip_extension(&net, "InOctets").map(|value| counter(RECEIVED, value)),
            ip_extension(&net, "OutOctets").map(|value| counter(SENT, value)),
            open_fds().map(|value| gauge(OPEN_FDS, value)),
            limit(Resource::RLIMIT_NOFILE).map(|value| gauge(MAX_FDS, value)),
            self.start.map(|value| gauge(START, value)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn cpu_seconds() -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "exact for 285 years")]
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(number * 1024.0)
}

fn open_fds() -> Option<f64> {
    // The listing itself holds one.
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(open.saturating_sub(1)).ok().map(f64::from)
}

/// What this process may have; if that is unlimited, the greatest number.
#[expect(clippy::cast_precision_loss, reason = "limits are small or unlimited")]
fn limit(of: Resource) -> Option<f64> {
    let (soft, _) = getrlimit(of).ok()?;
    Some(soft as f64)
}

/// A number of the lines `IpExt:`, the first of which has names.
fn ip_extension(netstat: &str, name: &str) -> Option<f64> {
    let mut lines = netstat
        .lines()
        .filter_map(|line| line.strip_prefix("IpExt:"));
    let column = lines.next()?.split_whitespace().position(|n| n == name)?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

/// When this process began, in seconds since 1970.
pub(super) fn start_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: f64 = field(&stat, START_TIME)?.parse().ok()?;
    let kernel = std::fs::read_to_string("/proc/stat").ok()?;
    let boot = kernel
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<f64>().ok()? + ticks / TICKS_PER_SECOND)
}

/// A field of `stat`. The name of the program may hold spaces and parentheses; the
/// fields begin after the last one.
fn field(stat: &str, place: usize) -> Option<&str> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(place)
}

/// A family of one counter without labels.
pub(super) fn counter(name: (&str, &str), value: f64) -> MetricFamily {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::default();
    metric.set_counter(counter);
    family(name, MetricType::COUNTER, metric)
}

fn gauge(name: (&str, &str), value: f64) -> MetricFamily {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::default();
    metric.set_gauge(gauge);
    family(name, MetricType::GAUGE, metric)
}

fn family((name, help): (&str, &str), kind: MetricType, metric: Metric) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(vec![metric]);
    family
}

#[cfg(test)]
#[path = "tests/proc.rs"]
mod hostile;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_can_be_read() {
        let families = ProcessCollector::new().unwrap().collect();
        let names: Vec<_> = families.iter().map(MetricFamily::name).collect();
        assert_eq!(names, ALL.map(|(name, _)| name));
        // After 2020 and before 2100.
        assert!((1.57e9..4.1e9).contains(&start_time().unwrap()));
    }

    #[test]
    fn network_counters_are_found_by_their_names() {
        let text = "TcpExt: InOctets\nTcpExt: 1\nIpExt: InNoRoutes InOctets\nIpExt: 2 3\n";
        assert_eq!(ip_extension(text, "InOctets"), Some(3.0));
        assert_eq!(ip_extension(text, "OutOctets"), None);
        assert_eq!(ip_extension("", "InOctets"), None);
    }
}
