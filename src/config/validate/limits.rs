//! Fields that hold numbers, times, names of modes and feature gates.
//!
//! Apart from [`network`](super::network) because most of these only have limits.

use std::time::Duration;

use super::Problems;
use crate::config::duration::GoDuration;
use crate::config::feature_gates;
use crate::config::kube_proxy::KubeProxyConfiguration;
use crate::host::ConntrackSettings;
use crate::sync::Gap;

/// Only one of kube-proxy's modes is ours.
pub(in crate::config) fn mode(configuration: &KubeProxyConfiguration, problems: &mut Problems) {
    match configuration.mode.as_str() {
        "iptables" => {}
        mode @ ("ipvs" | "nftables") => problems.add(
            "mode",
            format!("`{mode}` is done by kube-proxy only; run that, or choose `iptables`"),
        ),
        other => problems.add("mode", format!("`{other}` is no mode; write `iptables`")),
    }
}

/// The bit of the firewall mark.
pub(in crate::config) fn masquerade_bit(
    configuration: &KubeProxyConfiguration,
    problems: &mut Problems,
) -> Option<u8> {
    let path = "iptables.masqueradeBit";
    let bit = configuration.iptables.masquerade_bit?;
    problems.within(path, bit, 0..=31);
    u8::try_from(bit).ok()
}

/// The period of syncs, and the gap between two. Fields that no sync depends on are looked at,
/// too.
pub(in crate::config) fn periods(
    configuration: &KubeProxyConfiguration,
    problems: &mut Problems,
) -> Option<(Duration, Gap)> {
    let iptables = &configuration.iptables;
    let period = positive("iptables.syncPeriod", iptables.sync_period, problems);
    positive(
        "configSyncPeriod",
        configuration.config_sync_period,
        problems,
    );
    let path = "iptables.minSyncPeriod";
    let gap = match iptables.min_sync_period {
        None => Gap::Budget(None),
        Some(gap) => Gap::Fixed(not_negative(path, gap, problems)?),
    };
    if let (Gap::Fixed(gap), Some(period)) = (gap, period)
        && gap > period
    {
        problems.add(
            path,
            format!("{gap:?} is more than the sync period, {period:?}"),
        );
    }
    Some((period?, gap))
}

/// The settings of the kernel's table of connections.
pub(in crate::config) fn conntrack(
    configuration: &KubeProxyConfiguration,
    problems: &mut Problems,
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

/// How ready the kernel is to kill this process.
pub(in crate::config) fn oom_score_adj(
    configuration: &KubeProxyConfiguration,
    problems: &mut Problems,
) -> Option<i16> {
    let score = configuration.oom_score_adj?;
    problems.within("oomScoreAdj", score, -1000..=1000);
    i16::try_from(score).ok()
}

/// Requests that may go out at once; nobody here counts them.
pub(in crate::config) fn burst(configuration: &KubeProxyConfiguration, problems: &mut Problems) {
    let burst = configuration.client_connection.burst;
    problems.within("clientConnection.burst", burst, 0..=i32::MAX);
}

/// There are none; but whoever names a wrong version would be told so by kube-proxy.
pub(in crate::config) fn hidden_metrics(
    configuration: &KubeProxyConfiguration,
    problems: &mut Problems,
) {
    /// The minor version before the one that this program stands in for.
    const PREVIOUS: &str = "1.35";

    let version = &configuration.show_hidden_metrics_for_version;
    if !version.is_empty() && version != PREVIOUS {
        problems.add(
            "showHiddenMetricsForVersion",
            format!("`{version}` is not the previous version, `{PREVIOUS}`"),
        );
    }
}

/// Every gate is known and may be set so.
pub(in crate::config) fn gates(configuration: &KubeProxyConfiguration, problems: &mut Problems) {
    for (name, value) in &configuration.feature_gates {
        if let Some(problem) = feature_gates::problem(name, *value) {
            problems.add("featureGates", problem);
        }
    }
}

/// A time that is not zero.
pub(super) fn positive(
    path: &str,
    duration: GoDuration,
    problems: &mut Problems,
) -> Option<Duration> {
    let time = duration.to_std().filter(|time| !time.is_zero());
    problems.keep(
        path,
        time.ok_or_else(|| format!("{duration} is not greater than 0")),
    )
}

fn not_negative(path: &str, duration: GoDuration, problems: &mut Problems) -> Option<Duration> {
    let time = duration.to_std();
    problems.keep(path, time.ok_or_else(|| format!("{duration} is negative")))
}
