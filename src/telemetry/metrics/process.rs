//! Metrics that the program does not count itself: its use of resources, and packet counters of the
//! kernel. Both are read at each scrape.
//!
//! The `process_*` metrics are not those of the `prometheus` crate, which cuts CPU time to whole
//! seconds: a daemon that uses milliseconds would look idle for hours.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics_linux.go`, `nfacctMetricCollector` (v1.37)

use std::collections::HashMap;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use prometheus::Result;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, Metric, MetricFamily, MetricType};

/// Unit of the start time in `/proc/self/stat`; 100 on every architecture this can run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Index of the start time among the fields of `/proc/self/stat` after the program name (proc(5)
/// numbers it 22).
const START_TIME: usize = 19;

/// Name and HELP, as all Prometheus client libraries have them.
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
pub(in crate::telemetry) const START: (&str, &str) = (
    "process_start_time_seconds",
    "Start time of the process since unix epoch in seconds.",
);

/// All `process_*` metrics, in the order in which they are collected.
const PROCESS: [(&str, &str); 9] = [
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

/// Name and HELP of packet counters of the kernel.
const INVALID_DROPPED: (&str, &str) = (
    "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
    "[ALPHA] Number of packets dropped because conntrack classified them as invalid",
);
const LOCALHOST_NODE_PORTS: (&str, &str) = (
    "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
    "[ALPHA] Number of packets accepted to NodePorts on 127.0.0.0/8",
);

/// Collector of the `process_*` metrics. Values that cannot be read are left out.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    descs: Vec<Desc>,
    /// Start of the process as Unix time, read once: a later change of the wall clock must not
    /// look like a restart.
    start: Option<f64>,
}

impl ProcessCollector {
    pub(super) fn new() -> Result<Self> {
        let descs = PROCESS.map(|(name, help)| {
            Desc::new(name.to_owned(), help.to_owned(), Vec::new(), HashMap::new())
        });
        Ok(Self {
            descs: descs.into_iter().collect::<Result<_>>()?,
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
        // Counters of the network namespace, which is the node's: Go's client library reads the
        // same.
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

/// Reads a packet counter of the kernel; `None`: it cannot be read, and has no sample, as upstream
/// has it. Called on the thread that serves scrapes, so it must not wait.
pub(crate) type ReadCount = fn() -> Option<u64>;

/// Collector of packet counters of the kernel.
#[derive(Debug)]
pub(crate) struct KernelCounts {
    descs: [Desc; 2],
    reads: [ReadCount; 2],
}

impl KernelCounts {
    /// Returns the collector of dropped invalid packets and of packets to NodePorts on localhost.
    pub(crate) fn new(invalid_dropped: ReadCount, localhost_node_ports: ReadCount) -> Result<Self> {
        let desc = |(name, help): (&str, &str)| {
            Desc::new(name.to_owned(), help.to_owned(), Vec::new(), HashMap::new())
        };
        Ok(Self {
            descs: [desc(INVALID_DROPPED)?, desc(LOCALHOST_NODE_PORTS)?],
            reads: [invalid_dropped, localhost_node_ports],
        })
    }
}

impl Collector for KernelCounts {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let names = [INVALID_DROPPED, LOCALHOST_NODE_PORTS].into_iter();
        let counts = names.zip(self.reads).filter_map(|(name, read)| {
            #[expect(clippy::cast_precision_loss, reason = "exact up to 9 * 10^15 packets")]
            let count = read()? as f64;
            Some(counter(name, count))
        });
        counts.collect()
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
    // Reading the directory opens a descriptor itself.
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(open.saturating_sub(1)).ok().map(f64::from)
}

/// Returns the soft limit of a resource; the greatest number if it is unlimited.
#[expect(clippy::cast_precision_loss, reason = "limits are small or unlimited")]
fn limit(resource: Resource) -> Option<f64> {
    let (soft, _) = getrlimit(resource).ok()?;
    Some(soft as f64)
}

/// Returns a counter of the lines `IpExt:`: the first of them has the names, the second the
/// values.
fn ip_extension(netstat: &str, name: &str) -> Option<f64> {
    let mut lines = netstat
        .lines()
        .filter_map(|line| line.strip_prefix("IpExt:"));
    let column = lines.next()?.split_whitespace().position(|n| n == name)?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

/// Returns the start of this process as Unix time in seconds.
pub(in crate::telemetry) fn start_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: f64 = field(&stat, START_TIME)?.parse().ok()?;
    let kernel = std::fs::read_to_string("/proc/stat").ok()?;
    let boot = kernel
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<f64>().ok()? + ticks / TICKS_PER_SECOND)
}

/// Returns a field of `/proc/self/stat` after the program name. The name may hold spaces and
/// parentheses, so the fields begin after the last closing one.
fn field(stat: &str, index: usize) -> Option<&str> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(index)
}

/// Returns a metric family of one counter without labels.
fn counter(name: (&str, &str), value: f64) -> MetricFamily {
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
    fn all_process_metrics_are_collected() {
        let families = ProcessCollector::new().unwrap().collect();
        let names: Vec<_> = families.iter().map(MetricFamily::name).collect();
        assert_eq!(names, PROCESS.map(|(name, _)| name));
        // After 2020 and before 2100.
        assert!((1.57e9..4.1e9).contains(&start_time().unwrap()));
    }

    #[test]
    fn network_counters_are_found_by_name() {
        let text = "TcpExt: InOctets\nTcpExt: 1\nIpExt: InNoRoutes InOctets\nIpExt: 2 3\n";
        assert_eq!(ip_extension(text, "InOctets"), Some(3.0));
        assert_eq!(ip_extension(text, "OutOctets"), None);
        assert_eq!(ip_extension("", "InOctets"), None);
    }
}
