//! Validation of fields: numbers, durations, networks, addresses, the names of modes and
//! interfaces, the metrics and health servers, and logging.
//!
//! Each function takes text and numbers and returns the type that other modules use, so that no
//! unchecked value reaches them. Problems are recorded, not returned, so that all are reported.
//!
//! # Source
//!
//! Upstream: pkg/proxy/apis/config/validation/validation.go; `cmd/kube-proxy/app/server.go`;
//! staging/src/k8s.io/component-base/logs/api/v1/options.go, `Validate` (v1.37)

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::feature_gates::{ALL_ALPHA, ALL_BETA, LOGGING_ALPHA, LOGGING_BETA};
use super::go::GoDuration;
use super::kube_proxy::{FormatOptions, KubeProxyConfiguration, OFF};
use super::problems::{ConfigProblems, unknown};
use super::settings::{SERVICE_DISPATCHES, choice};
use crate::host::ConntrackSettings;
use crate::net::{IpFamily, IpNet, parse_cidr, parse_ip};
use crate::render::{LocalDetector, LocalMode, NodePortAddressItem, TreeThresholds};
use crate::sync::Gap;
use crate::telemetry::PREVIOUS_MINOR_VERSION;

/// Returns the arrangement of the rules in dispatch chains.
pub(super) fn service_dispatch(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<TreeThresholds> {
    let word = &configuration.deltaproxy.service_dispatch;
    let words = SERVICE_DISPATCHES.iter().map(|(word, ..)| *word);
    let unknown = || unknown("arrangement", word, &words.collect::<Vec<_>>());
    let chosen = choice(SERVICE_DISPATCHES, word).ok_or_else(unknown);
    problems.keep("deltaproxy.serviceDispatch", chosen)
}

pub(super) fn mode(configuration: &KubeProxyConfiguration, problems: &mut ConfigProblems) {
    match configuration.mode.as_str() {
        "iptables" => {}
        mode @ ("ipvs" | "nftables") => problems.add_with_hint(
            "mode",
            format!("proxy mode `{mode}` is not supported"),
            "use `iptables`, or keep kube-proxy on this node",
        ),
        other => problems.add("mode", unknown("proxy mode", other, &["iptables"])),
    }
}

/// Checks the bit of the packet mark that requests masquerading.
pub(super) fn masquerade_bit(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<u8> {
    let path = "iptables.masqueradeBit";
    let bit = configuration.iptables.masquerade_bit?;
    problems.within(path, bit, 0..=31);
    u8::try_from(bit).ok()
}

/// Checks all periods. Returns the interval of checks and the minimum interval between syncs.
pub(super) fn periods(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<(Duration, Gap)> {
    let iptables = &configuration.iptables;
    let period = positive("iptables.syncPeriod", iptables.sync_period, problems);
    positive(
        "configSyncPeriod",
        configuration.config_sync_period,
        problems,
    );
    let path = "iptables.minSyncPeriod";
    let gap = match not_negative(path, iptables.min_sync_period, problems)? {
        gap if gap.is_zero() => Gap::Budget(None),
        gap => Gap::Fixed(gap),
    };
    if let (Gap::Fixed(gap), Some(period)) = (gap, period)
        && gap > period
    {
        problems.add(
            path,
            format!("must be at most the sync period, {period:?}; got {gap:?}"),
        );
    }
    Some((period?, gap))
}

/// Kernel settings of the node, written once at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSettings {
    pub conntrack: ConntrackSettings,
    /// OOM score adjustment of this process, from -1000, never killed, to 1000, killed first.
    pub oom_score_adj: i16,
}

pub(super) fn node(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<NodeSettings> {
    let conntrack = conntrack(configuration, problems);
    let oom_score_adj = oom_score_adj(configuration, problems);
    Some(NodeSettings {
        conntrack: conntrack?,
        oom_score_adj: oom_score_adj?,
    })
}

fn conntrack(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<ConntrackSettings> {
    let fields = &configuration.conntrack;
    let mut count = |path, number: Option<i32>| {
        let number = number.unwrap_or_default();
        problems.within(path, number, 0..=i32::MAX);
        u32::try_from(number).ok()
    };
    let max_per_core = count("conntrack.maxPerCore", fields.max_per_core);
    let min = count("conntrack.min", fields.min);
    let mut timeout = |path, duration: Option<GoDuration>| {
        not_negative(path, duration.unwrap_or_default(), problems)
    };
    let established = timeout(
        "conntrack.tcpEstablishedTimeout",
        fields.tcp_established_timeout,
    );
    let close_wait = timeout(
        "conntrack.tcpCloseWaitTimeout",
        fields.tcp_close_wait_timeout,
    );
    let udp = timeout("conntrack.udpTimeout", Some(fields.udp_timeout));
    let udp_stream = timeout(
        "conntrack.udpStreamTimeout",
        Some(fields.udp_stream_timeout),
    );
    Some(ConntrackSettings {
        max_per_core: max_per_core?,
        min: min?,
        tcp_established_timeout: established?,
        tcp_close_wait_timeout: close_wait?,
        is_tcp_liberal: fields.tcp_be_liberal,
        udp_timeout: udp?,
        udp_stream_timeout: udp_stream?,
    })
}

fn oom_score_adj(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<i16> {
    let score = configuration.oom_score_adj?;
    problems.within("oomScoreAdj", score, -1000..=1000);
    i16::try_from(score).ok()
}

pub(super) fn burst(configuration: &KubeProxyConfiguration, problems: &mut ConfigProblems) {
    let burst = configuration.client_connection.burst;
    problems.within("clientConnection.burst", burst, 0..=i32::MAX);
}

/// Checks the version of hidden metrics as kube-proxy does, although there are no such metrics.
pub(super) fn hidden_metrics(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) {
    let version = &configuration.show_hidden_metrics_for_version;
    if !version.is_empty() && version != PREVIOUS_MINOR_VERSION {
        problems.add(
            "showHiddenMetricsForVersion",
            format!("must be the previous version, {PREVIOUS_MINOR_VERSION}; got `{version}`"),
        );
    }
}

fn not_negative(
    path: &str,
    duration: GoDuration,
    problems: &mut ConfigProblems,
) -> Option<Duration> {
    let time = duration.to_std();
    problems.keep(
        path,
        time.ok_or_else(|| format!("must be 0 or more, got {duration}")),
    )
}

pub(super) fn positive(
    path: &str,
    duration: GoDuration,
    problems: &mut ConfigProblems,
) -> Option<Duration> {
    let time = duration.to_std().filter(|time| !time.is_zero());
    problems.keep(
        path,
        time.ok_or_else(|| format!("must be greater than 0, got {duration}")),
    )
}

/// Values of `--detect-local-mode`.
const LOCAL_MODES: &[&str] = &[
    "ClusterCIDR",
    "NodeCIDR",
    "BridgeInterface",
    "InterfaceNamePrefix",
];

/// Checks how local traffic is detected. Settings of other detection modes are ignored.
pub(super) fn local_mode(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<LocalMode> {
    const BRIDGE: &str = "detectLocal.bridgeInterface";
    const PREFIX: &str = "detectLocal.interfaceNamePrefix";

    let names = &configuration.detect_local;
    match configuration.detect_local_mode.as_str() {
        "ClusterCIDR" if configuration.cluster_cidr.is_empty() => {
            Some(LocalMode::ClusterCidr(Vec::new()))
        }
        "ClusterCIDR" => problems
            .keep("clusterCIDR", pair(&configuration.cluster_cidr))
            .map(LocalMode::ClusterCidr),
        "NodeCIDR" => Some(LocalMode::NodeCidr),
        mode @ "BridgeInterface" => interface(mode, (BRIDGE, &names.bridge_interface), problems)
            .map(|name| LocalMode::Fixed(LocalDetector::Bridge(name))),
        mode @ "InterfaceNamePrefix" => {
            interface(mode, (PREFIX, &names.interface_name_prefix), problems)
                .map(|prefix| LocalMode::Fixed(LocalDetector::InterfacePrefix(prefix)))
        }
        other => {
            // A network that no mode accepts is reported with the mode, not after it is corrected.
            if !configuration.cluster_cidr.is_empty() {
                problems.keep("clusterCIDR", pair(&configuration.cluster_cidr));
            }
            problems.add("detectLocalMode", unknown("mode", other, LOCAL_MODES));
            None
        }
    }
}

/// Checks the interface name that a detection mode requires.
///
/// Differs from upstream: a name that the kernel does not accept is rejected here, not by every
/// restore.
fn interface(
    mode: &str,
    (path, name): (&str, &str),
    problems: &mut ConfigProblems,
) -> Option<Arc<str>> {
    /// IFNAMSIZ without the terminating zero, in bytes.
    const LONGEST: usize = 15;

    let is_invalid = |c: char| c.is_whitespace() || c == '"';
    if name.is_empty() {
        let problem = format!("{mode} requires {}", problems.name(path));
        problems.add("detectLocalMode", problem);
        None
    } else if name.contains(is_invalid) || name.len() > LONGEST {
        problems.add(
            path,
            format!("{name:?} is not a valid interface name (at most {LONGEST} bytes)"),
        );
        None
    } else {
        Some(name.into())
    }
}

/// Parses one CIDR, or one of each family.
fn pair(text: &str) -> Result<Vec<IpNet>, String> {
    let cidrs = text.split(',').map(cidr).collect::<Result<Vec<_>, _>>()?;
    match cidrs[..] {
        [_] => Ok(cidrs),
        [a, b] if IpFamily::of_cidr(a) != IpFamily::of_cidr(b) => Ok(cidrs),
        _ => Err(format!(
            "must be one CIDR, or one of each family; got `{text}`"
        )),
    }
}

fn cidr(text: &str) -> Result<IpNet, String> {
    parse_cidr(text).ok_or_else(|| format!("`{text}` is not a valid CIDR (example: 10.244.0.0/16)"))
}

/// Keywords among the node addresses that have NodePorts.
const ADDRESS_KEYWORDS: [&str; 3] = ["primary", "localhost", "all"];

/// Checks the node addresses that have NodePorts, and replaces `localhost` and `all` by networks.
///
/// Upstream: pkg/proxy/apis/config/validation/validation.go,
/// `validateKubeProxyNodePortAddress`, cmd/kube-proxy/app/server.go,
/// `expandNodePortAddressKeywords` (v1.37)
pub(super) fn node_ports(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<Vec<NodePortAddressItem>> {
    let values = configuration.node_port_addresses.as_deref();
    let values = values.unwrap_or_default();
    let mut items = Some(Vec::new());
    for (index, value) in values.iter().enumerate() {
        let is_repeated = values.iter().take(index).any(|earlier| earlier == value);
        let item = if is_repeated && ADDRESS_KEYWORDS.contains(&value.as_str()) {
            Err(format!("duplicate keyword `{value}`"))
        } else {
            node_port_items(value)
        };
        match (problems.keep("nodePortAddresses", item), &mut items) {
            (Some(item), Some(all)) => all.extend(item),
            _ => items = None,
        }
    }
    items
}

fn node_port_items(text: &str) -> Result<Vec<NodePortAddressItem>, String> {
    const LOCALHOST: [&str; 2] = ["127.0.0.0/8", "::1/128"];
    const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];

    let networks: &[&str] = match text {
        "primary" => return Ok(vec![NodePortAddressItem::Primary]),
        "localhost" => &LOCALHOST,
        "all" => &ALL,
        cidr => &[cidr],
    };
    let networks: Option<Vec<IpNet>> = networks.iter().copied().map(parse_cidr).collect();
    let networks = networks.ok_or_else(|| {
        format!(
            "`{text}` is not a valid CIDR or keyword (keywords: {}; example: 10.0.0.0/8)",
            ADDRESS_KEYWORDS.join(", ")
        )
    })?;
    Ok(networks
        .into_iter()
        .map(NodePortAddressItem::Network)
        .collect())
}

/// Checks the address of this node. It may be unspecified, as `0.0.0.0` is.
pub(super) fn bind_address(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<IpAddr> {
    let text = &configuration.bind_address;
    let ip = parse_ip(text).ok_or_else(|| format!("`{text}` is not a valid IP address"));
    problems.keep("bindAddress", ip)
}

pub(super) fn serving_address(
    path: &str,
    text: &str,
    problems: &mut ConfigProblems,
) -> Option<SocketAddr> {
    let address = text.parse().ok();
    let address = address.filter(|address: &SocketAddr| address.port() != 0);
    let examples = "examples: 127.0.0.1:1234, [::1]:1234, off";
    problems.keep(
        path,
        address.ok_or_else(|| format!("`{text}` is not a valid address ({examples})")),
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving {
    /// Metrics address; `None` disables the server.
    pub metrics: Option<SocketAddr>,
    /// Health address; `None` disables the server.
    pub healthz: Option<SocketAddr>,
    /// Action if an address is not available.
    pub bind_failure: BindFailure,
    /// Debugging pages on the metrics address are served: `--profiling`.
    pub is_profiling: bool,
    /// Pages in HTML on the metrics address are served: `--status-page`.
    pub has_status_page: bool,
}

/// Action if a server cannot listen on its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindFailure {
    /// Retry until the address is available.
    Retry,
    /// Exit: `--bind-address-hard-fail`.
    Exit,
}

pub(super) fn serving(
    configuration: &KubeProxyConfiguration,
    has_status_page: bool,
    problems: &mut ConfigProblems,
) -> Option<Serving> {
    let mut at = |path, text: &str| match text {
        OFF => Some(None),
        text => serving_address(path, text, problems).map(Some),
    };
    let metrics = at("metricsBindAddress", &configuration.metrics_bind_address);
    let healthz = at("healthzBindAddress", &configuration.healthz_bind_address);
    Some(Serving {
        metrics: metrics?,
        healthz: healthz?,
        is_profiling: configuration.enable_profiling,
        has_status_page,
        bind_failure: if configuration.bind_address_hard_fail {
            BindFailure::Exit
        } else {
            BindFailure::Retry
        },
    })
}

/// Value of `--logging-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggingFormat {
    Text,
    /// One JSON object for each line.
    Json,
}

/// Checks the logging section. Returns format and verbosity.
pub(super) fn logging(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) -> Option<(LoggingFormat, u8)> {
    let logging = &configuration.logging;
    let format = match logging.format.as_str() {
        "text" => Ok(LoggingFormat::Text),
        "json" => Ok(LoggingFormat::Json),
        other => Err(unknown("log format", other, &["text", "json"])),
    };
    let format = problems.keep("logging.format", format);
    let path = "logging.flushFrequency";
    positive(path, logging.flush_frequency.0, problems);
    let most = i32::MAX.unsigned_abs();
    if logging.verbosity > most {
        let problem = format!("must be at most {most}, got {}", logging.verbosity);
        problems.add("logging.verbosity", problem);
    }
    vmodule(configuration, format, problems);
    logging_gates(configuration, format, problems);
    let verbosity = u8::try_from(logging.verbosity).unwrap_or(u8::MAX);
    Some((format?, verbosity))
}

fn vmodule(
    configuration: &KubeProxyConfiguration,
    format: Option<LoggingFormat>,
    problems: &mut ConfigProblems,
) {
    let path = "logging.vmodule";
    let entries = &configuration.logging.vmodule;
    if !entries.is_empty() && format == Some(LoggingFormat::Json) {
        problems.add(path, "requires log format `text`");
    }
    for entry in entries {
        let pattern = &entry.file_pattern;
        if pattern.is_empty() || pattern.contains(['=', ',']) {
            let problem = format!("`{pattern}` is not a valid file name pattern");
            problems.add(path, problem);
        }
    }
}

/// Checks the feature gates of logging: format `json` requires a beta gate, which is on by
/// default, and the options of a format an alpha gate, which is off.
fn logging_gates(
    configuration: &KubeProxyConfiguration,
    format: Option<LoggingFormat>,
    problems: &mut ConfigProblems,
) {
    let gates = &configuration.feature_gates;
    let gate = |name: &str, all: &str| gates.get(name).or_else(|| gates.get(all));
    if format == Some(LoggingFormat::Json) && gate(LOGGING_BETA, ALL_BETA) == Some(&false) {
        let problem = format!("`json` requires feature gate {LOGGING_BETA}");
        problems.add("logging.format", problem);
    }
    if gate(LOGGING_ALPHA, ALL_ALPHA) == Some(&true) {
        return;
    }
    let options = &configuration.logging.options;
    for (name, format) in [("text", &options.text), ("json", &options.json)] {
        let FormatOptions {
            split_stream,
            info_buffer_size,
        } = format;
        let set = [
            // kube-proxy drops the field of a file before it validates, so that such files exist.
            ("splitStream", *split_stream && !problems.is_of_file()),
            ("infoBufferSize", !info_buffer_size.is_zero()),
        ];
        for (field, _) in set.iter().filter(|(_, is_set)| *is_set) {
            let path = format!("logging.options.{name}.{field}");
            problems.add(&path, format!("requires feature gate {LOGGING_ALPHA}"));
        }
    }
}
