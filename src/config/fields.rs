//! Table of all configuration fields: path in the file, flag, and whether the field has an effect.
//!
//! Errors, notes and `/flagz` look up the flag of a field here.

/// Effect of a field on this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldEffect {
    /// As in kube-proxy's iptables mode.
    Used,
    /// None, because the iptables mode ignores the field or this program lacks the function.
    None,
}

/// Field of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// Path in the file, as in `conntrack.min`.
    pub path: &'static str,
    /// Flag without dashes; empty if there is none.
    pub flag: &'static str,
    pub effect: FieldEffect,
}

/// Returns the field with this path.
pub(super) fn field(path: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.path == path)
}

const fn used(path: &'static str, flag: &'static str) -> Field {
    Field {
        path,
        flag,
        effect: FieldEffect::Used,
    }
}

const fn unused(path: &'static str, flag: &'static str) -> Field {
    Field {
        path,
        flag,
        effect: FieldEffect::None,
    }
}

/// All fields, in the order of upstream's type.
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
