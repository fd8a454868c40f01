//! Metrics of the process: its versions, and values that are read at each scrape because the
//! program does not count them itself, which are its use of resources and packet counters of the
//! kernel.
//!
//! The `process_*` metrics are not those of the `prometheus` crate, which cuts CPU time to whole
//! seconds: a daemon that uses milliseconds would look idle for hours.
//!
//! Versions are `deltaproxy_build_info`, and `kubernetes_build_info` in place of kube-proxy's.
//! Alerts compare `git_version` of the latter between the components of a cluster, up to the minor
//! version, because a kube-proxy of another release than its API server is a mistake. deltaproxy is
//! not released with Kubernetes, so its metric has the version of the API server; until that is
//! known, the release of kube-proxy whose behavior this program has. The version of deltaproxy
//! follows the plus sign, and is in `deltaproxy_build_info`.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics_linux.go`, `nfacctMetricCollector`;
//! `staging/src/k8s.io/component-base/metrics/version_parser.go` (v1.37)
//!
//! Differs from upstream: `kubernetes_build_info` has the version of the API server, and no Go
//! version, commit or date; the last two would make two builds of one source differ. Prometheus
//! takes an empty label for a missing one.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::time::UNIX_EPOCH;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{IntGaugeVec, Registry, Result};

use super::factory::{MetricFactory, OWN};
use crate::clock;

type ReadValue = fn() -> Option<f64>;

/// Registers the `process_*` metrics, with the HELP of all Prometheus client libraries. Values that
/// cannot be read are left out.
pub(super) fn register(registry: &Registry) -> Result<()> {
    let of = |kind| {
        move |name, help, read: ReadValue| register_scraped(registry, (name, help), kind, read)
    };
    let (counter, gauge) = (of(MetricType::COUNTER), of(MetricType::GAUGE));
    counter(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent in seconds.",
        cpu_seconds,
    )?;
    gauge(
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        || bytes_of_status("VmRSS:"),
    )?;
    gauge(
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes.",
        || bytes_of_status("VmSize:"),
    )?;
    gauge(
        "process_virtual_memory_max_bytes",
        "Maximum amount of virtual memory available in bytes.",
        || limit(Resource::RLIMIT_AS),
    )?;
    counter(
        "process_network_receive_bytes_total",
        "Number of bytes received by the process over the network.",
        || bytes_of_network("InOctets"),
    )?;
    counter(
        "process_network_transmit_bytes_total",
        "Number of bytes sent by the process over the network.",
        || bytes_of_network("OutOctets"),
    )?;
    gauge(
        "process_open_fds",
        "Number of open file descriptors.",
        open_fds,
    )?;
    gauge(
        "process_max_fds",
        "Maximum number of open file descriptors.",
        || limit(Resource::RLIMIT_NOFILE),
    )?;
    register_start(registry)
}

pub(in crate::telemetry) const START: &str = "process_start_time_seconds";

pub(in crate::telemetry) fn register_start(registry: &Registry) -> Result<()> {
    let metric = (
        START,
        "Start time of the process since unix epoch in seconds.",
    );
    let start = clock::process_start().duration_since(UNIX_EPOCH).ok();
    let start = start.map(|start| start.as_secs_f64());
    register_scraped(registry, metric, MetricType::GAUGE, move || start)
}

/// Reads a packet counter of the kernel; `None`: it cannot be read, and has no sample, as upstream
/// has it. Called on the thread that serves scrapes, so it must not wait.
pub(crate) type ReadCount = fn() -> Option<u64>;

/// Adds the counts of dropped invalid packets and of packets to NodePorts on localhost, which
/// the kernel has.
pub(super) fn register_packet_counts(
    registry: &Registry,
    invalid_dropped: ReadCount,
    localhost_node_ports: ReadCount,
) -> Result<()> {
    let invalid = (
        "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
        "[ALPHA] Number of packets dropped because conntrack classified them as invalid",
    );
    let localhost = (
        "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
        "[ALPHA] Number of packets accepted to NodePorts on 127.0.0.0/8",
    );
    for (name, read) in [
        (invalid, invalid_dropped),
        (localhost, localhost_node_ports),
    ] {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 9 * 10^15 packets")]
        let read = move || read().map(|count| count as f64);
        register_scraped(registry, name, MetricType::COUNTER, read)?;
    }
    Ok(())
}

fn cpu_seconds() -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "exact for 285 years")]
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Returns a line of `/proc/self/status` in bytes.
fn bytes_of_status(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
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

/// Returns a counter of the network namespace, which is the node's: Go's client library reads the
/// same.
fn bytes_of_network(name: &str) -> Option<f64> {
    let netstat = std::fs::read_to_string("/proc/self/net/netstat").ok()?;
    ip_extension(&netstat, name)
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

/// Metric with the values that a function returns at each scrape, by the value of its label. A
/// metric without a label has the value of an empty one.
pub(super) struct ScrapedMetric<R> {
    desc: Desc,
    kind: MetricType,
    read: R,
}

impl<R> ScrapedMetric<R>
where
    R: Fn() -> Vec<(&'static str, f64)> + Send + Sync + 'static,
{
    pub(super) fn register(
        registry: &Registry,
        (name, help): (&str, &str),
        label: Option<&str>,
        kind: MetricType,
        read: R,
    ) -> Result<()> {
        let labels = label.into_iter().map(str::to_owned).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?;
        registry.register(Box::new(Self { desc, kind, read }))
    }
}

/// Registers a metric without labels. Without a value it has no sample.
pub(in crate::telemetry) fn register_scraped(
    registry: &Registry,
    name: (&str, &str),
    kind: MetricType,
    read: impl Fn() -> Option<f64> + Send + Sync + 'static,
) -> Result<()> {
    let read = move || read().map(|value| ("", value)).into_iter().collect();
    ScrapedMetric::register(registry, name, None, kind, read)
}

impl<R> Collector for ScrapedMetric<R>
where
    R: Fn() -> Vec<(&'static str, f64)> + Send + Sync,
{
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let samples = (self.read)().into_iter().map(|(label, value)| {
            let labels = self.desc.variable_labels.iter().map(|name| {
                let mut pair = LabelPair::default();
                pair.set_name(name.clone());
                pair.set_value(label.to_owned());
                pair
            });
            let mut metric = Metric::from_label(labels.collect());
            if self.kind == MetricType::COUNTER {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            } else {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            metric
        });
        let samples: Vec<Metric> = samples.collect();
        if samples.is_empty() {
            return Vec::new();
        }
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(self.kind);
        family.set_metric(samples);
        vec![family]
    }
}

/// Release of kube-proxy whose behavior this program has.
const RELEASE: KubernetesVersion = KubernetesVersion {
    major: 1,
    minor: 37,
    patch: 2,
};

/// That release, as Kubernetes spells it.
pub(crate) const KUBE_PROXY_VERSION: &str = "1.37.2";

pub(crate) const KUBE_PROXY_MINOR_VERSION: &str = "1.37";

/// Minor version before that.
pub(crate) const PREVIOUS_MINOR_VERSION: &str = "1.36";

/// Labels of `kubernetes_build_info`, in upstream's order.
const BUILD_LABELS: [&str; 9] = [
    "major",
    "minor",
    "git_version",
    "git_commit",
    "git_tree_state",
    "build_date",
    "go_version",
    "compiler",
    "platform",
];

/// Version of a component of Kubernetes, without the suffix of its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KubernetesVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

impl KubernetesVersion {
    /// Parses `gitVersion`, as `v1.36.3` or `v1.34.2-eks-1`. `None` if it is not a valid version.
    pub(crate) fn parse(git_version: &str) -> Option<Self> {
        let numbers = git_version.strip_prefix('v')?;
        let end = numbers.find(|c: char| !c.is_ascii_digit() && c != '.');
        let numbers = end.map_or(Some(numbers), |end| numbers.get(..end))?;
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        Some(Self {
            major: numbers.next()??,
            minor: numbers.next()??,
            patch: numbers.next()??,
        })
    }
}

impl Display for KubernetesVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Metric `kubernetes_build_info`. Clones share its value.
#[derive(Debug, Clone)]
pub(crate) struct KubernetesBuild(IntGaugeVec);

impl KubernetesBuild {
    /// Registers it, with the release of kube-proxy, and `deltaproxy_build_info`.
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        MetricFactory::new(registry, OWN)
            .gauges(
                "build_info",
                "Version of deltaproxy; always 1",
                &["version"],
            )?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let help =
            "Version of the API server, and of the program that replaces kube-proxy; always 1";
        let kubernetes = MetricFactory::new(registry, "kubernetes");
        let info = Self(kubernetes.gauges("build_info", help, &BUILD_LABELS)?);
        info.set(RELEASE);
        Ok(info)
    }

    /// Replaces the version by that of the API server.
    pub(crate) fn set(&self, version: KubernetesVersion) {
        let git_version = format!("{version}+deltaproxy-{}", env!("CARGO_PKG_VERSION"));
        let (major, minor) = (version.major.to_string(), version.minor.to_string());
        let platform = platform();
        let values = [
            &major,
            &minor,
            &git_version,
            "",
            "",
            "",
            "",
            "rustc",
            &platform,
        ];
        self.0.reset();
        self.0.with_label_values(&values).set(1);
    }
}

/// Returns operating system and architecture as Go names them.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

#[cfg(test)]
#[path = "tests/process.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/build.rs"]
mod build_tests;
