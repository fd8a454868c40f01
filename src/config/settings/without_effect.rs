//! Settings of kube-proxy that have no effect on this program.
//!
//! They are accepted so that kube-proxy's command line and file can be used unchanged. Fields are
//! validated and written back by `--write-config-to`.

use super::kind::SettingKind::{Bool, Duration, Int, List, Quantity, Text, VModules};
use super::setting::{Setting, SettingSection};

/// Flags and fields that the iptables mode ignores, or whose function this program lacks.
pub(super) const WITHOUT_EFFECT: SettingSection = SettingSection {
    heading: Some("Accepted without effect"),
    settings: &[
        Setting::new("logging.vmodule", "vmodule", VModules)
            .help("Log verbosity for source files of kube-proxy"),
        Setting::new("logging.flushFrequency", "log-flush-frequency", Duration)
            .default("5s")
            .help("Interval of log flushes; every line is written at once"),
        Setting::new(
            "logging.options.text.splitStream",
            "log-text-split-stream",
            Bool,
        )
        .default("false")
        .help("Split of text logs; all of them are on stderr"),
        Setting::new(
            "logging.options.json.splitStream",
            "log-json-split-stream",
            Bool,
        )
        .default("false")
        .help("Split of JSON logs; all of them are on stderr"),
        Setting::new(
            "logging.options.text.infoBufferSize",
            "log-text-info-buffer-size",
            Quantity,
        )
        .default("0")
        .help("Buffer size for text logs on stdout"),
        Setting::new(
            "logging.options.json.infoBufferSize",
            "log-json-info-buffer-size",
            Quantity,
        )
        .default("0")
        .help("Buffer size for JSON logs on stdout"),
        // kube-proxy has these two defaults in flags, but not in its configuration.
        Setting::new("ipvs.syncPeriod", "ipvs-sync-period", Duration)
            .flag_default("30s")
            .help("Mode ipvs: interval of full syncs"),
        Setting::new("ipvs.minSyncPeriod", "ipvs-min-sync-period", Duration)
            .flag_default("1s")
            .help("Mode ipvs: minimum interval between syncs"),
        Setting::new("ipvs.scheduler", "ipvs-scheduler", Text("NAME"))
            .help("Mode ipvs: scheduler of virtual servers"),
        Setting::new("ipvs.excludeCIDRs", "ipvs-exclude-cidrs", List("CIDR,..."))
            .help("Mode ipvs: networks that are not cleaned up"),
        Setting::new("ipvs.strictARP", "ipvs-strict-arp", Bool)
            .help("Mode ipvs: arp_ignore 1 and arp_announce 2"),
        Setting::new("ipvs.tcpTimeout", "ipvs-tcp-timeout", Duration)
            .help("Mode ipvs: timeout of idle TCP connections"),
        Setting::new("ipvs.tcpFinTimeout", "ipvs-tcpfin-timeout", Duration)
            .help("Mode ipvs: timeout of TCP connections after a FIN"),
        Setting::new("ipvs.udpTimeout", "ipvs-udp-timeout", Duration)
            .help("Mode ipvs: timeout of UDP"),
        Setting::new("configSyncPeriod", "config-sync-period", Duration)
            .default("15m")
            .help("Interval of notifications about unchanged objects"),
        Setting::new(
            "showHiddenMetricsForVersion",
            "show-hidden-metrics-for-version",
            Text("VERSION"),
        )
        .help("Previous version whose hidden metrics are shown; there are none"),
        // Flags of a library that kube-proxy was linked with until 1.36: the manifest of an older
        // DaemonSet may still have them.
        Setting::flag("boot-id-file", Text("FILE,..."))
            .flag_default("/proc/sys/kernel/random/boot_id")
            .help("Files with the boot ID")
            .hidden(),
        Setting::flag("machine-id-file", Text("FILE,..."))
            .flag_default("/etc/machine-id,/var/lib/dbus/machine-id")
            .help("Files with the machine ID")
            .hidden(),
        Setting::field("nftables.masqueradeBit", Int("BIT")).default("14"),
        Setting::field("nftables.masqueradeAll", Bool),
        Setting::field("nftables.syncPeriod", Duration),
        Setting::field("nftables.minSyncPeriod", Duration),
        Setting::field("winkernel.networkName", Text("NAME")),
        Setting::field("winkernel.sourceVip", Text("IP")),
        Setting::field("winkernel.enableDSR", Bool),
        Setting::field("winkernel.rootHnsEndpointName", Text("NAME")),
        Setting::field("winkernel.forwardHealthCheckVip", Bool),
        // Removed from kube-proxy, but still in old files.
        Setting::field("portRange", Text("PORT-PORT")),
        Setting::field("windowsRunAsService", Bool),
    ],
};
