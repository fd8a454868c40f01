//! Validation of fields that hold numbers, durations, feature gates and the names of modes.
//!
//! Each function takes text and numbers and returns the type that other modules use, so that no
//! unchecked value reaches them. Problems are recorded, not returned, so that all are reported.
//!
//! # Source
//!
//! Upstream: pkg/proxy/apis/config/validation/validation.go (v1.37)

use std::time::Duration;

use super::go::GoDuration;
use super::kube_proxy::KubeProxyConfiguration;
use super::problems::{ConfigProblems, unknown};
use super::settings::{SERVICE_DISPATCHES, choice};
use crate::host::ConntrackSettings;
use crate::render::TreeThresholds;
use crate::sync::Gap;

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

/// Checks that the proxy mode is `iptables`.
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
    /// Conntrack settings.
    pub conntrack: ConntrackSettings,
    /// OOM score adjustment of this process, from -1000, never killed, to 1000, killed first.
    pub oom_score_adj: i16,
}

/// Checks the kernel settings.
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

/// Checks the burst of requests to the API server.
pub(super) fn burst(configuration: &KubeProxyConfiguration, problems: &mut ConfigProblems) {
    let burst = configuration.client_connection.burst;
    problems.within("clientConnection.burst", burst, 0..=i32::MAX);
}

/// Checks the version of hidden metrics as kube-proxy does, although there are no such metrics.
pub(super) fn hidden_metrics(
    configuration: &KubeProxyConfiguration,
    problems: &mut ConfigProblems,
) {
    /// Minor version before that of the kube-proxy that this program replaces.
    const PREVIOUS: &str = "1.36";

    let version = &configuration.show_hidden_metrics_for_version;
    if !version.is_empty() && version != PREVIOUS {
        problems.add(
            "showHiddenMetricsForVersion",
            format!("must be the previous version, {PREVIOUS}; got `{version}`"),
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

/// Returns a duration that is greater than zero.
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
