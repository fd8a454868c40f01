//! The table of settings, in sections, and the words that some of them take as values. Those of
//! the program are of every command, and those of objects and of rendering of every command that
//! renders; all others are of the daemon alone:
//! files and actions of the process, timing of syncs, kernel of the node, servers and logging, and
//! settings of kube-proxy without effect.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::setting::SettingKind::{
    Bool, Duration, FilledText, Gates, Int, List, NodeName, Number, OnePath, Path, Port, Switch,
    Text, VModules, Version, Within, Word,
};
use super::setting::{Setting, SettingSection};
use crate::config::environment::ProgramName;
use crate::config::kube_proxy::DEFAULT_SERVICE_DISPATCH;
use crate::host::BackendChoice;
use crate::render;

/// Source of Services, EndpointSlices and the Node, for every command that reads objects.
pub(in crate::config) const SOURCE: SettingSection = SettingSection {
    heading: Some("Source"),
    settings: &[
        Setting::field("clientConnection.kubeconfig", Text("FILE"))
            .flag("kubeconfig")
            .help("Kubeconfig for the API server")
            .more(
                "Without a source, the service account of the Pod is used; commands other than \
                 `run` use the kubeconfigs of kubectl before that.",
            )
            .conflicts_with("manifests")
            .in_short_help(),
        Setting::without_field("master", Text("URL"))
            .help("URL of the API server; overrides the kubeconfig")
            .conflicts_with("manifests"),
        Setting::field("clientConnection.acceptContentTypes", Text("TYPE")),
        Setting::field("clientConnection.contentType", Text("TYPE"))
            .flag("kube-api-content-type")
            .default("application/vnd.kubernetes.protobuf")
            .help(
                "Content type of API responses, application/json or \
                 application/vnd.kubernetes.protobuf",
            ),
        Setting::field("clientConnection.qps", Number)
            .flag("kube-api-qps")
            .default("5")
            .help("API requests per second; no limit if negative"),
        Setting::field("clientConnection.burst", Int("COUNT"))
            .flag("kube-api-burst")
            .default("10")
            .help("API requests in a burst"),
        Setting::without_field("manifests", OnePath("PATH"))
            .help("Manifests to use instead of a cluster")
            .more("PATH is a file, a folder or `-` for stdin.")
            .in_short_help(),
        Setting::without_field("lenient", Switch)
            .requires("manifests")
            .help("Use the valid parts of invalid objects in manifests")
            .more("`run` always does. Other commands report them as errors."),
        Setting::field("hostnameOverride", NodeName)
            .flag("hostname-override")
            .help("Name of this node [default: the host name]")
            .more("Overrides the name in the file of --config.")
            .in_short_help(),
    ],
};

/// Settings of rendering, for every command that renders.
pub(in crate::config) const RULES: SettingSection = SettingSection {
    heading: Some("Rules"),
    settings: &[
        Setting::field("mode", Text("MODE"))
            .flag("proxy-mode")
            .help("Proxy mode; only iptables is supported"),
        Setting::field("clusterCIDR", Text("CIDR[,CIDR]"))
            .flag("cluster-cidr")
            .help("Pod networks; other traffic to cluster IPs is masqueraded")
            .in_short_help(),
        Setting::field("detectLocalMode", Text("MODE"))
            .flag("detect-local-mode")
            .help("Detection of traffic from local Pods [default: ClusterCIDR]")
            .more("The modes are ClusterCIDR, NodeCIDR, BridgeInterface and InterfaceNamePrefix.")
            .in_short_help(),
        Setting::field("detectLocal.bridgeInterface", Text("NAME"))
            .flag("pod-bridge-interface")
            .help("Bridge interface of the Pods, for --detect-local-mode=BridgeInterface"),
        Setting::field("detectLocal.interfaceNamePrefix", Text("PREFIX"))
            .flag("pod-interface-name-prefix")
            .help("Prefix of Pod interface names, for --detect-local-mode=InterfaceNamePrefix"),
        Setting::field("iptables.masqueradeAll", Bool)
            .flag("masquerade-all")
            .default("false")
            .help("Masquerade all traffic to cluster IPs")
            .in_short_help(),
        Setting::field("iptables.masqueradeBit", Int("BIT"))
            .flag("iptables-masquerade-bit")
            .default("14")
            .help("Bit of the packet mark that requests masquerading (0-31)"),
        Setting::field("nodePortAddresses", List("CIDR|WORD,..."))
            .flag("nodeport-addresses")
            .help("Node addresses with NodePorts: CIDRs, primary, localhost, all")
            .more(
                "NodePorts accept connections only on node addresses in these networks. The word \
                 `primary` selects one address of each family: --bind-address, or the first one of \
                 the Node. The word `localhost` means 127.0.0.0/8 and ::1/128, where only IPv4 has \
                 NodePorts, and `all` means 0.0.0.0/0 and ::/0. A family without an item has \
                 NodePorts on all addresses. [default: all]",
            )
            .in_short_help(),
        Setting::field("iptables.localhostNodePorts", Bool)
            .flag("iptables-localhost-nodeports")
            .default("true")
            .help("Accept connections to NodePorts on 127.0.0.1"),
        Setting::field("bindAddress", FilledText("IP"))
            .flag("bind-address")
            .default("0.0.0.0")
            .help("Primary address of this node; 0.0.0.0 uses that in the Node object")
            .more(
                "--nodeport-addresses=primary selects it, and source ranges of load balancers \
                 that hold it admit the node itself. If it is IPv6, metrics and health addresses \
                 default to IPv6.",
            ),
        Setting::field("featureGates", Gates)
            .flag("feature-gates")
            .help("Feature gates; only AllowServiceExternalIPs has an effect on rules"),
        Setting::without_field("iptables-backend", Word("BACKEND", || texts(BACKENDS)))
            .default("auto")
            .help("Variant of the iptables binaries"),
        Setting::field(
            "deltaproxy.serviceDispatch",
            Word("MODE", || texts(SERVICE_DISPATCHES)),
        )
        .flag("service-dispatch")
        .default(DEFAULT_SERVICE_DISPATCH)
        .flag_default(DEFAULT_SERVICE_DISPATCH)
        .help("Arrangement of the rules that send packets to Services")
        .more("In a tree, first packets traverse few of 50,000 rules."),
    ],
};

/// Flags that every command has. `run` takes a value for its version flag.
pub(in crate::config) const PROGRAM: SettingSection = SettingSection {
    heading: None,
    settings: &[Setting::without_field("version", Version)
        .short('V')
        .help("Print version")
        .flag_default("false")
        .in_short_help()],
};

/// Configuration file.
pub(in crate::config) const FILE: SettingSection = SettingSection {
    heading: Some("File"),
    settings: &[
        Setting::without_field("config", Path("FILE"))
            .help("KubeProxyConfiguration to use instead of flags")
            .more(
                "The file replaces all flags that have a field in it, except --hostname-override \
                 and those of logging. The process exits with code 1 when another valid \
                 configuration is written into the file itself. One that replaces it, as by a \
                 ConfigMap volume, is only reported.",
            )
            .in_short_help(),
        Setting::without_field("write-config-to", Path("FILE"))
            .help("Write the configuration to a file and exit"),
    ],
};

/// Actions that end the process when they are done. They are valid together with `--config`.
pub(in crate::config) const ONE_SHOT: SettingSection = SettingSection {
    heading: Some("One-shot actions"),
    settings: &[
        Setting::without_field("init-only", Bool)
            .default("false")
            .help("Do the privileged setup and exit")
            .more("The setup consists of kernel settings and kernel modules.")
            .in_short_help(),
        Setting::without_field("cleanup", Bool)
            .default("false")
            .help("Remove the Service rules and exit")
            .more("The rules of every proxy are removed; see `deltaproxy cleanup`.")
            .in_short_help(),
        Setting::without_field("check-config", Bool)
            .default("false")
            .help("Print all problems of flags and file, and exit")
            .more(
                "Nothing is read but the file, and nothing is started: for a pipeline before a \
                 rollout. The exit code is 64 if the daemon would reject it.",
            )
            .in_short_help(),
        Setting::without_field("strict", Switch)
            .help("With --check-config, exit with 1 if there are warnings")
            .requires("check-config"),
    ],
};

/// Timing and form of syncs.
pub(super) const SYNC: SettingSection = SettingSection {
    heading: Some("Sync"),
    settings: &[
        Setting::without_field("dry-run", Switch)
            .help("Print restore input instead of applying it")
            .more(
                "The source of objects is followed as usual. No port is opened and no Event is \
                 written, so that it can run alongside the proxy of the node.",
            )
            .in_short_help(),
        Setting::without_field("shadow", Switch)
            .help("Compare the rules of a running kube-proxy; write nothing")
            .more(
                "Runs alongside the kube-proxy of the node and measures how long changes take to \
                 its rules; `deltaproxy shadow-report` shows the result. The metrics and health \
                 addresses are 127.0.0.1:10349 and 0.0.0.0:10356, whatever the file says, unless \
                 flags set others.",
            ),
        Setting::field("iptables.syncPeriod", Duration)
            .flag("iptables-sync-period")
            .default("30s")
            .help("Interval of checks for lost rules; maximum retry delay")
            .more(
                "A check detects rules that were flushed or edited. Health turns red when a change \
                 waits for more than twice this interval.",
            ),
        Setting::field("iptables.minSyncPeriod", Duration)
            .flag("iptables-min-sync-period")
            // The zero of the field would be read as the flag's zero, which means no interval.
            .flag_default("")
            .help("Minimum interval between syncs [default: by CPU budget]")
            .more("Without this flag, and with 0 in a file, --sync-cpu-budget decides.")
            .in_short_help(),
        Setting::without_field("sync-cpu-budget", Within("PERCENT", [1, 100]))
            .help("CPU limit of syncs, 1-100 % [default: nft 50, legacy 1]")
            .more(
                "The limit is in percent of one CPU for each family. It holds under lasting \
                 change: isolated changes and short bursts are never delayed, and no delay is \
                 longer than 1s. It is overridden by --iptables-min-sync-period.",
            )
            .in_short_help(),
        // The longest time for which a rule stays wrong that was changed without an event.
        Setting::without_field("verify-interval", Duration)
            .default("5m")
            .help("Interval of full rule verification; 0 disables it")
            .more(
                "A verification compares all rules in the kernel with the applied ones, whether or \
                 not the kernel reported a change. Verifications take at most 0.5 % of one CPU.",
            ),
        Setting::without_field("state-dir", Path("DIR"))
            .help("Existing directory for a history of syncs [default: none]")
            .more(
                "It has at most 16 MiB for history and --at of other commands, and the last \
                 failed restore input of each IP family.",
            ),
        Setting::without_field("partial-restore", Word("SHAPE", || texts(PARTIAL_RESTORES)))
            .default("changed-chains")
            .help("Chains that a partial restore contains"),
    ],
};

const UNCHANGED: &str = "0 leaves the kernel setting unchanged.";

/// Kernel settings of the node; no rule depends on them.
pub(super) const NODE: SettingSection = SettingSection {
    heading: Some("Node"),
    settings: &[
        Setting::field("conntrack.maxPerCore", Int("COUNT"))
            .flag("conntrack-max-per-core")
            .default("32768")
            .help("Maximum tracked connections per CPU")
            .more("0 leaves nf_conntrack_max unchanged.")
            .in_short_help(),
        Setting::field("conntrack.min", Int("COUNT"))
            .flag("conntrack-min")
            .default("131072")
            .help("Minimum of nf_conntrack_max")
            .more("Without effect if --conntrack-max-per-core is 0.")
            .in_short_help(),
        Setting::field("conntrack.tcpEstablishedTimeout", Duration)
            .flag("conntrack-tcp-timeout-established")
            .default("24h")
            .help("Conntrack timeout of idle TCP connections")
            .more(UNCHANGED),
        Setting::field("conntrack.tcpCloseWaitTimeout", Duration)
            .flag("conntrack-tcp-timeout-close-wait")
            .default("1h")
            .help("Conntrack timeout of TCP connections in CLOSE_WAIT")
            .more(UNCHANGED),
        Setting::field("conntrack.tcpBeLiberal", Bool)
            .flag("conntrack-tcp-be-liberal")
            .default("false")
            .help("Set nf_conntrack_tcp_be_liberal: accept packets outside of the TCP window"),
        Setting::field("conntrack.udpTimeout", Duration)
            .flag("conntrack-udp-timeout")
            .default("0")
            .help("Conntrack timeout of UDP without a reply")
            .more(UNCHANGED),
        Setting::field("conntrack.udpStreamTimeout", Duration)
            .flag("conntrack-udp-timeout-stream")
            .default("0")
            .help("Conntrack timeout of UDP with replies")
            .more(UNCHANGED),
        Setting::field("oomScoreAdj", Int("SCORE"))
            .flag("oom-score-adj")
            .default("-999")
            .help("Value for oom_score_adj of this process, -1000 to 1000"),
    ],
};

/// Metrics and health servers, and logging.
pub(super) const OBSERVABILITY: SettingSection = SettingSection {
    heading: Some("Observability"),
    settings: &[
        // In a file, the defaults of both addresses depend on the bind address.
        Setting::field("metricsBindAddress", Text("IP[:PORT]"))
            .flag("metrics-bind-address")
            .help("Metrics address, or off [default: 127.0.0.1:10249]")
            .more("Serves /metrics for Prometheus. An empty address means `off`.")
            .in_short_help(),
        Setting::without_field("metrics-bind-address-override", Text("IP[:PORT]"))
            .help("Metrics address, or off, also with --config")
            .more(
                "A file replaces --metrics-bind-address, as for kube-proxy, but not this flag. It \
                 is for a ConfigMap that must stay as it is.",
            ),
        Setting::field("healthzBindAddress", Text("IP[:PORT]"))
            .flag("healthz-bind-address")
            .help("Health address, or off [default: 0.0.0.0:10256]")
            .more(
                "Serves /healthz and /livez for load balancers and probes. An empty address means \
                 `off`.",
            )
            .in_short_help(),
        Setting::field("enableProfiling", Bool)
            .flag("profiling")
            .default("false")
            .help("Debugging pages on the metrics address")
            .more("Serves /debug/flags/v, which changes -v at run time."),
        Setting::without_field("service-metrics", Bool)
            .default("false")
            .help("Metrics of connections to each Service port")
            .more(
                "Exports deltaproxy_service_connections_total for at most 1000 ports, from counters \
                 of the kernel, which are read every 30s or less often: a reading takes at most 1 % \
                 of one CPU.",
            ),
        Setting::without_field("status-page", Bool)
            .default("true")
            .help("Pages for a browser on the metrics address")
            .more(
                "Serves / with the state of the node, and /services. Clients that are not on the \
                 node get no names and addresses of Services.",
            ),
        Setting::field("bindAddressHardFail", Bool)
            .flag("bind-address-hard-fail")
            .default("false")
            .help("Exit if a metrics or health address is not available")
            .more("Otherwise, listening is retried."),
        Setting::without_field("metrics-port", Port)
            .flag_default("10249")
            .help("Deprecated: default port of --metrics-bind-address; 0 disables it"),
        Setting::without_field("healthz-port", Port)
            .flag_default("10256")
            .help("Deprecated: default port of --healthz-bind-address; 0 disables it"),
        Setting::field("logging.verbosity", Within("LEVEL", [0, u32::MAX]))
            .flag("v")
            .short('v')
            .default("0")
            .help("Log verbosity")
            .more("From 2 on, partial restores are logged; from 4 on, their input.")
            .in_short_help(),
        Setting::field("logging.format", Text("FORMAT"))
            .flag("logging-format")
            .default("text")
            .help("Log format, text or json")
            .in_short_help(),
        Setting::without_field("log-style", Word("STYLE", || texts(LOG_STYLES)))
            .default("auto")
            .help("Style of both log formats"),
    ],
};

/// Flags and fields that the iptables mode ignores, or whose function this program lacks.
pub(super) const WITHOUT_EFFECT: SettingSection = SettingSection {
    heading: Some("Accepted without effect"),
    settings: &[
        Setting::field("logging.vmodule", VModules)
            .flag("vmodule")
            .help("Log verbosity for source files of kube-proxy"),
        Setting::field("logging.flushFrequency", Duration)
            .flag("log-flush-frequency")
            .default("5s")
            .help("Interval of log flushes; every line is written at once"),
        Setting::field("logging.options.text.splitStream", Bool)
            .flag("log-text-split-stream")
            .default("false")
            .help("Split of text logs; all of them are on stderr"),
        Setting::field("logging.options.json.splitStream", Bool)
            .flag("log-json-split-stream")
            .default("false")
            .help("Split of JSON logs; all of them are on stderr"),
        Setting::field("logging.options.text.infoBufferSize", Text("QUANTITY"))
            .flag("log-text-info-buffer-size")
            .default("0")
            .help("Buffer size for text logs on stdout"),
        Setting::field("logging.options.json.infoBufferSize", Text("QUANTITY"))
            .flag("log-json-info-buffer-size")
            .default("0")
            .help("Buffer size for JSON logs on stdout"),
        // kube-proxy has these two defaults in flags, but not in its configuration.
        Setting::field("ipvs.syncPeriod", Duration)
            .flag("ipvs-sync-period")
            .flag_default("30s")
            .help("Mode ipvs: interval of full syncs"),
        Setting::field("ipvs.minSyncPeriod", Duration)
            .flag("ipvs-min-sync-period")
            .flag_default("1s")
            .help("Mode ipvs: minimum interval between syncs"),
        Setting::field("ipvs.scheduler", Text("NAME"))
            .flag("ipvs-scheduler")
            .help("Mode ipvs: scheduler of virtual servers"),
        Setting::field("ipvs.excludeCIDRs", List("CIDR,..."))
            .flag("ipvs-exclude-cidrs")
            .help("Mode ipvs: networks that are not cleaned up"),
        Setting::field("ipvs.strictARP", Bool)
            .flag("ipvs-strict-arp")
            .help("Mode ipvs: arp_ignore 1 and arp_announce 2"),
        Setting::field("ipvs.tcpTimeout", Duration)
            .flag("ipvs-tcp-timeout")
            .help("Mode ipvs: timeout of idle TCP connections"),
        Setting::field("ipvs.tcpFinTimeout", Duration)
            .flag("ipvs-tcpfin-timeout")
            .help("Mode ipvs: timeout of TCP connections after a FIN"),
        Setting::field("ipvs.udpTimeout", Duration)
            .flag("ipvs-udp-timeout")
            .help("Mode ipvs: timeout of UDP"),
        Setting::field("configSyncPeriod", Duration)
            .flag("config-sync-period")
            .default("15m")
            .help("Interval of notifications about unchanged objects"),
        Setting::field("showHiddenMetricsForVersion", Text("VERSION"))
            .flag("show-hidden-metrics-for-version")
            .help("Previous version whose hidden metrics are shown; there are none"),
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

/// Word that a flag takes as value, its help, and the choice that it stands for.
pub(in crate::config) type FlagWord<T> = (&'static str, &'static str, T);

/// Words of `--iptables-backend`.
pub(in crate::config) const BACKENDS: &[FlagWord<BackendChoice>] = &[
    (
        "auto",
        "Backend with kubelet's KUBE-IPTABLES-HINT, otherwise path",
        BackendChoice::Auto,
    ),
    (
        "path",
        "Binaries iptables and ip6tables in PATH, including wrappers",
        BackendChoice::Path,
    ),
    ("nft", "Binaries with the suffix -nft", BackendChoice::Nft),
    (
        "legacy",
        "Binaries with the suffix -legacy",
        BackendChoice::Legacy,
    ),
];

/// Words of `--service-dispatch`.
pub(in crate::config) const SERVICE_DISPATCHES: &[FlagWord<render::TreeThresholds>] = &[
    (
        "flat",
        "All in KUBE-SERVICES and KUBE-NODEPORTS, as kube-proxy",
        render::TreeThresholds::FLAT,
    ),
    (
        "tree",
        "A tree of chains, in which a packet traverses few rules",
        render::TreeThresholds::TREE,
    ),
    (
        "auto",
        "A tree in place of a chain above 300 rules, flat again at 150",
        render::TreeThresholds::AUTO,
    ),
];

/// Words of `--partial-restore`.
pub(in crate::config) const PARTIAL_RESTORES: &[FlagWord<render::PartialRestore>] = &[
    (
        "changed-chains",
        "Only chains whose rules changed",
        render::PartialRestore::ChangedChains,
    ),
    (
        "kep-3453",
        "All chains of changed Services and every shared chain, as in KEP-3453",
        render::PartialRestore::Kep3453,
    ),
];

/// Style of log lines, in both formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStyle {
    /// `klog` under the program name `kube-proxy`, `native` under any other.
    Auto,
    /// As kube-proxy writes.
    Klog,
    /// With level and module, and other keys in JSON.
    Native,
}

impl LogStyle {
    /// Reports whether a program of this name writes as kube-proxy does.
    pub(crate) fn is_klog(self, program: ProgramName) -> bool {
        match self {
            Self::Auto => program == ProgramName::KubeProxy,
            Self::Klog => true,
            Self::Native => false,
        }
    }
}

/// Words of `--log-style`.
pub(in crate::config) const LOG_STYLES: &[FlagWord<LogStyle>] = &[
    (
        "auto",
        "klog if the program is called kube-proxy, else native",
        LogStyle::Auto,
    ),
    (
        "klog",
        "As kube-proxy: text of klog, or JSON with its keys",
        LogStyle::Klog,
    ),
    (
        "native",
        "With level and module of each record",
        LogStyle::Native,
    ),
];

/// Returns a parser that accepts these words and keeps their text. Help and completions list them.
fn texts<T>(words: &'static [FlagWord<T>]) -> PossibleValuesParser {
    let values = words.iter();
    PossibleValuesParser::new(values.map(|(text, help, _)| PossibleValue::new(*text).help(*help)))
}

/// Returns a parser that turns a word into its choice.
pub(in crate::config) fn choices<T: Copy + Send + Sync>(
    words: &'static [FlagWord<T>],
) -> impl TypedValueParser<Value = T> {
    texts(words).try_map(|text| choice(words, &text).ok_or("unknown word"))
}

/// Returns the choice that a word stands for, in any case; `None` for any other text.
pub(in crate::config) fn choice<T: Copy>(words: &[FlagWord<T>], text: &str) -> Option<T> {
    let mut words = words.iter();
    let (_, _, choice) = words.find(|(word, ..)| word.eq_ignore_ascii_case(text))?;
    Some(*choice)
}
