//! Every field of the configuration: its flag, and whether it has any effect here.
//!
//! Apart as a table because errors, notes and documentation all need to go from a field to its
//! flag, and because it should be seen at a glance what is only parsed.

/// What becomes of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It does what it does in kube-proxy's iptables mode.
    Used,
    /// Nothing: either nothing there as well, or nothing that this program has.
    None,
}

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// In the file.
    pub path: &'static str,
    /// On the command line, without dashes; empty if there is none.
    pub flag: &'static str,
    /// Its effect.
    pub effect: Effect,
}

/// The field of that path.
pub(super) fn field(path: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.path == path)
}

const fn used(path: &'static str, flag: &'static str) -> Field {
    Field {
        path,
        flag,
        effect: Effect::Used,
    }
}

const fn unused(path: &'static str, flag: &'static str) -> Field {
    Field {
        path,
        flag,
        effect: Effect::None,
    }
}

/// All of them.
pub(super) const FIELDS: &[Field] = &[
    used("featureGates", "feature-gates"),
    used("clientConnection.kubeconfig", "kubeconfig"),
    used("clientConnection.acceptContentTypes", ""),
    used("clientConnection.contentType", "kube-api-content-type"),
    used("clientConnection.qps", "kube-api-qps"),
    used("clientConnection.burst", "kube-api-burst"),
    used("logging.format", "logging-format"),
    unused("logging.flushFrequency", "log-flush-frequency"),
    used("logging.verbosity", "v"),
    unused("logging.vmodule", "vmodule"),
    unused("logging.options.text.splitStream", "log-text-split-stream"),
    unused(
        "logging.options.text.infoBufferSize",
        "log-text-info-buffer-size",
    ),
    unused("logging.options.json.splitStream", "log-json-split-stream"),
    unused(
        "logging.options.json.infoBufferSize",
        "log-json-info-buffer-size",
    ),
    used("hostnameOverride", "hostname-override"),
    used("bindAddress", "bind-address"),
    used("healthzBindAddress", "healthz-bind-address"),
    used("metricsBindAddress", "metrics-bind-address"),
    used("bindAddressHardFail", "bind-address-hard-fail"),
    used("enableProfiling", "profiling"),
    unused(
        "showHiddenMetricsForVersion",
        "show-hidden-metrics-for-version",
    ),
    used("mode", "proxy-mode"),
    used("iptables.masqueradeBit", "iptables-masquerade-bit"),
    used("iptables.masqueradeAll", "masquerade-all"),
    used(
        "iptables.localhostNodePorts",
        "iptables-localhost-nodeports",
    ),
    used("iptables.syncPeriod", "iptables-sync-period"),
    used("iptables.minSyncPeriod", "iptables-min-sync-period"),
    unused("ipvs.syncPeriod", "ipvs-sync-period"),
    unused("ipvs.minSyncPeriod", "ipvs-min-sync-period"),
    unused("ipvs.scheduler", "ipvs-scheduler"),
    unused("ipvs.excludeCIDRs", "ipvs-exclude-cidrs"),
    unused("ipvs.strictARP", "ipvs-strict-arp"),
    unused("ipvs.tcpTimeout", "ipvs-tcp-timeout"),
    unused("ipvs.tcpFinTimeout", "ipvs-tcpfin-timeout"),
    unused("ipvs.udpTimeout", "ipvs-udp-timeout"),
    unused("nftables.masqueradeBit", ""),
    unused("nftables.masqueradeAll", ""),
    unused("nftables.syncPeriod", ""),
    unused("nftables.minSyncPeriod", ""),
    unused("winkernel.networkName", ""),
    unused("winkernel.sourceVip", ""),
    unused("winkernel.enableDSR", ""),
    unused("winkernel.rootHnsEndpointName", ""),
    unused("winkernel.forwardHealthCheckVip", ""),
    used("detectLocalMode", "detect-local-mode"),
    used("detectLocal.bridgeInterface", "pod-bridge-interface"),
    used(
        "detectLocal.interfaceNamePrefix",
        "pod-interface-name-prefix",
    ),
    used("clusterCIDR", "cluster-cidr"),
    used("nodePortAddresses", "nodeport-addresses"),
    used("oomScoreAdj", "oom-score-adj"),
    used("conntrack.maxPerCore", "conntrack-max-per-core"),
    used("conntrack.min", "conntrack-min"),
    used(
        "conntrack.tcpEstablishedTimeout",
        "conntrack-tcp-timeout-established",
    ),
    used(
        "conntrack.tcpCloseWaitTimeout",
        "conntrack-tcp-timeout-close-wait",
    ),
    used("conntrack.tcpBeLiberal", "conntrack-tcp-be-liberal"),
    used("conntrack.udpTimeout", "conntrack-udp-timeout"),
    used("conntrack.udpStreamTimeout", "conntrack-udp-timeout-stream"),
    unused("configSyncPeriod", "config-sync-period"),
    unused("portRange", ""),
    unused("windowsRunAsService", ""),
];
