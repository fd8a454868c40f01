//! Every flag of `run`, with a value that is not its default, and what shows that it counts.

use std::path::Path;

use deltaproxy::testing::config::{Config, Source};

use super::{answers, asked, machine};
use Shown::{Deprecated, NoRule, Nothing, Rule, Scene, Setting, Test, Told, Wanted};

/// What shows it.
#[derive(Clone, Copy)]
pub enum Shown {
    /// A dry run prints this text of a rule only with the flag.
    Rule(&'static str),
    /// Only without it.
    NoRule(&'static str),
    /// A setting of the kernel becomes this number, which it is not by itself: the limits of the
    /// machine, with two processors, which no test may write.
    Wanted(&'static str, u64),
    /// The same below `/proc/sys/net`, and written.
    Setting(&'static str, &'static str),
    /// The setting of a module.
    Told(fn(&Config) -> String, &'static str),
    /// Nothing but one line, which says so.
    Nothing,
    /// A line names this flag to use instead.
    Deprecated(&'static str),
    /// What the scene looks at, with the flag and without. It has a folder to itself.
    Scene(fn(&Row, &Path)),
    /// A test with the flag: its file below `tests`, and its name.
    Test(&'static str, &'static str),
}

/// A flag.
pub struct Row {
    /// Without dashes.
    pub flag: &'static str,
    /// Not its default.
    pub value: &'static str,
    /// What it takes besides, and what it is seen to differ from.
    pub beside: &'static [&'static str],
    /// What shows it.
    pub shown: Shown,
}

impl Row {
    /// As it is typed.
    pub fn typed(&self) -> String {
        let (flag, value) = (self.flag, self.value);
        match value {
            "" => format!("--{flag}"),
            value => format!("--{flag}={value}"),
        }
    }
}

const fn row(flag: &'static str, value: &'static str, shown: Shown) -> Row {
    Row {
        flag,
        value,
        beside: &[],
        shown,
    }
}

const fn row_beside(
    beside: &'static [&'static str],
    flag: &'static str,
    value: &'static str,
    shown: Shown,
) -> Row {
    Row {
        flag,
        value,
        beside,
        shown,
    }
}

const ALPHA: &[&str] = &["--feature-gates=LoggingAlphaOptions=true"];
const BRIDGE: &[&str] = &[
    "--detect-local-mode=BridgeInterface",
    "--pod-bridge-interface=cbr9",
];
const PREFIX: &[&str] = &[
    "--detect-local-mode=InterfaceNamePrefix",
    "--pod-interface-name-prefix=eth",
];
const CHECK: &[&str] = &["--check-config"];
const MANIFESTS: &[&str] = &["--manifests=/x"];
const MAX: &str = "net/netfilter/nf_conntrack_max";
const LIBERAL: &str = "netfilter/nf_conntrack_tcp_be_liberal";
const ESTABLISHED: &str = "netfilter/nf_conntrack_tcp_timeout_established";
const CLOSE_WAIT: &str = "netfilter/nf_conntrack_tcp_timeout_close_wait";
const UDP: &str = "netfilter/nf_conntrack_udp_timeout";
const UDP_STREAM: &str = "netfilter/nf_conntrack_udp_timeout_stream";

fn gap(config: &Config) -> String {
    format!("{:?}", config.pacer.gap)
}

fn rate(config: &Config) -> String {
    let Source::Cluster(options) = &config.rules.source else {
        return "no API server".to_owned();
    };
    let limit = options.rate_limit;
    format!("{} a second, {} at once", limit.qps, limit.burst)
}

fn validation(config: &Config) -> String {
    match &config.rules.source {
        Source::Manifests { validation, .. } => format!("{validation:?}"),
        Source::Cluster(_) => "no manifests".to_owned(),
    }
}

fn shape(config: &Config) -> String {
    format!("{:?}", config.partial_restore)
}

/// How long a failure may last in all that it is for.
fn periods(config: &Config) -> String {
    format!("{:?} {:?}", config.sync_period, config.pacer.longest_retry)
}

/// All of them.
pub const TABLE: &[Row] = &[
    row("bind-address", "10.201.0.9", NoRule("-s 203.0.113.10 -j")),
    row(
        "bind-address-hard-fail",
        "true",
        Test(
            "health_checks/events.rs",
            "a_process_that_must_end_says_why",
        ),
    ),
    row("check-config", "true", Scene(answers::checks)),
    row(
        "cleanup",
        "true",
        Test("cleanup.rs", "kube_proxy_would_leave_the_same"),
    ),
    row(
        "cluster-cidr",
        "10.4.1.7/14",
        Rule("! -s 10.4.0.0/14 -j KUBE-MARK-MASQ"),
    ),
    row("config", "", Scene(answers::file_counts)),
    row("config-sync-period", "1h", Nothing),
    row("conntrack-max-per-core", "200000", Wanted(MAX, 400_000)),
    row("conntrack-min", "500000", Wanted(MAX, 500_000)),
    row("conntrack-tcp-be-liberal", "true", Setting(LIBERAL, "1")),
    row(
        "conntrack-tcp-timeout-close-wait",
        "7s",
        Setting(CLOSE_WAIT, "7"),
    ),
    row(
        "conntrack-tcp-timeout-established",
        "8s",
        Setting(ESTABLISHED, "8"),
    ),
    row("conntrack-udp-timeout", "9s", Setting(UDP, "9")),
    row(
        "conntrack-udp-timeout-stream",
        "11s",
        Setting(UDP_STREAM, "11"),
    ),
    row(
        "detect-local-mode",
        "NodeCIDR",
        Rule("! -s 10.4.1.0/24 -j KUBE-MARK-MASQ"),
    ),
    row("dry-run", "", Scene(machine::touches_nothing)),
    row(
        "shadow",
        "",
        Test(
            "shadow.rs",
            "a_shadow_measures_and_names_what_a_kube_proxy_does",
        ),
    ),
    row(
        "feature-gates",
        "AllowServiceExternalIPs=false",
        NoRule("default/web external IP"),
    ),
    row(
        "healthz-bind-address",
        "127.0.0.1:1234",
        Scene(machine::listens),
    ),
    row("healthz-port", "1234", Deprecated("--healthz-bind-address")),
    row(
        "help",
        "",
        Test("habits.rs", "every_command_has_examples_and_a_manual_page"),
    ),
    row(
        "hostname-override",
        "node2",
        Rule("--to-destination 10.4.2.12:8080"),
    ),
    row(
        "init-only",
        "true",
        Test(
            "setup.rs",
            "a_daemon_needs_few_privileges_once_all_is_set_up",
        ),
    ),
    row(
        "iptables-backend",
        "legacy",
        Scene(machine::takes_other_programs),
    ),
    row(
        "iptables-localhost-nodeports",
        "false",
        Rule("! -d 127.0.0.0/8 -j KUBE-NODEPORTS"),
    ),
    row("iptables-masquerade-bit", "3", Rule("--or-mark 0x00000008")),
    row("iptables-min-sync-period", "7s", Told(gap, "Fixed(7s)")),
    row("iptables-sync-period", "7s", Told(periods, "7s 7s")),
    row("ipvs-exclude-cidrs", "10.0.0.0/8", Nothing),
    row("ipvs-min-sync-period", "2s", Nothing),
    row("ipvs-scheduler", "rr", Nothing),
    row("ipvs-strict-arp", "true", Nothing),
    row("ipvs-sync-period", "2s", Nothing),
    row("ipvs-tcp-timeout", "2s", Nothing),
    row("ipvs-tcpfin-timeout", "2s", Nothing),
    row("ipvs-udp-timeout", "2s", Nothing),
    row("kube-api-burst", "20", Told(rate, "5 a second, 20 at once")),
    row(
        "kube-api-content-type",
        "application/json",
        Test(
            "bytes.rs",
            "protobuf_is_no_more_than_kube_proxy_receives_and_less_than_json",
        ),
    ),
    row("kube-api-qps", "20", Told(rate, "20 a second, 10 at once")),
    row(
        "kubeconfig",
        "",
        Test("drop_in.rs", "clusters_need_another_image_only"),
    ),
    row_beside(MANIFESTS, "lenient", "", Told(validation, "Lenient")),
    row("log-flush-frequency", "1s", Nothing),
    row_beside(ALPHA, "log-json-info-buffer-size", "64Ki", Nothing),
    row_beside(ALPHA, "log-json-split-stream", "true", Nothing),
    row(
        "log-style",
        "klog",
        Told(|config| format!("{:?}", config.log_style), "Klog"),
    ),
    row_beside(ALPHA, "log-text-info-buffer-size", "64Ki", Nothing),
    row_beside(ALPHA, "log-text-split-stream", "true", Nothing),
    row(
        "logging-format",
        "json",
        Test("log_formats.rs", "every_line_is_json_if_that_is_the_format"),
    ),
    row(
        "manifests",
        "",
        Test(
            "config_file.rs",
            "a_file_that_says_the_same_or_nothing_ends_no_daemon",
        ),
    ),
    row(
        "masquerade-all",
        "true",
        Rule("10.96.0.10 --dport 80 -j KUBE-MARK-MASQ"),
    ),
    row("master", "", Scene(asked::at_an_address)),
    row(
        "metrics-bind-address",
        "127.0.0.1:1234",
        Scene(machine::listens),
    ),
    row(
        "metrics-bind-address-override",
        "127.0.0.1:1234",
        Scene(machine::listens),
    ),
    row("metrics-port", "1234", Deprecated("--metrics-bind-address")),
    row(
        "nodeport-addresses",
        "127.0.0.0/8",
        Rule(" -d 127.0.0.1 -j KUBE-NODEPORTS"),
    ),
    row(
        "oom-score-adj",
        "7",
        Test("setup.rs", "a_daemon_asks_not_to_be_killed_for_memory"),
    ),
    row("partial-restore", "kep-3453", Told(shape, "Kep3453")),
    row_beside(BRIDGE, "pod-bridge-interface", "cbr0", Rule("! -i cbr0 -j")),
    row_beside(
        PREFIX,
        "pod-interface-name-prefix",
        "veth",
        Rule("! -i veth+ -j"),
    ),
    row(
        "profiling",
        "true",
        Test("pages.rs", "the_log_level_is_changed_while_running"),
    ),
    row("proxy-mode", "ipvs", Scene(answers::refuses_modes)),
    row(
        "service-dispatch",
        "tree",
        Told(
            |config| {
                format!(
                    "{:?}",
                    config.rules.render_settings.v4.fixed.tree_thresholds
                )
            },
            "TreeThresholds { nat: Some(12), filter: Some(1000) }",
        ),
    ),
    row(
        "service-metrics",
        "true",
        Told(|config| format!("{:?}", config.has_service_metrics), "true"),
    ),
    row("show-hidden-metrics-for-version", "1.36", Nothing),
    row(
        "state-dir",
        "/run/x",
        Told(
            |config| format!("{:?}", config.state_dir),
            "Some(\"/run/x\")",
        ),
    ),
    row("status-page", "false", Scene(machine::serves_no_html)),
    row_beside(CHECK, "strict", "", Scene(answers::checks_strictly)),
    row(
        "sync-cpu-budget",
        "7",
        Told(gap, "Budget(Some(CpuBudget(7)))"),
    ),
    row(
        "v",
        "1",
        Test("cli.rs", "flags_are_told_from_verbosity_1_on"),
    ),
    row(
        "verify-interval",
        "7s",
        Told(|config| format!("{:?}", config.verify_interval), "Some(7s)"),
    ),
    row(
        "version",
        "",
        Test("cli.rs", "the_version_is_told_and_not_another"),
    ),
    row("vmodule", "proxier=4", Nothing),
    row(
        "write-config-to",
        "",
        Test(
            "cli.rs",
            "a_written_configuration_is_written_the_same_again",
        ),
    ),
];
