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

/// Makes rows `FLAG = VALUE beside FLAGS: SHOWN`. A flag with the value "" is typed without one;
/// flags beside it are constants.
macro_rules! rows {
    ($($flag:literal = $value:literal $(beside $($beside:ident)+)?: $shown:expr;)*) => {
        &[$(Row {
            flag: $flag,
            value: $value,
            beside: &[$($($beside),+)?],
            shown: $shown,
        }),*]
    };
}

const ALPHA: &str = "--feature-gates=LoggingAlphaOptions=true";
const OF_BRIDGE: &str = "--detect-local-mode=BridgeInterface";
const BRIDGE_NAME: &str = "--pod-bridge-interface=cbr9";
const OF_PREFIX: &str = "--detect-local-mode=InterfaceNamePrefix";
const NAME_PREFIX: &str = "--pod-interface-name-prefix=eth";
const CHECK: &str = "--check-config";
const MANIFESTS: &str = "--manifests=/x";
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

fn trees(config: &Config) -> String {
    let fixed = &config.rules.render_settings.v4.fixed;
    format!("{:?}", fixed.tree_thresholds)
}

/// How long a failure may last in all that it is for.
fn periods(config: &Config) -> String {
    format!("{:?} {:?}", config.sync_period, config.pacer.longest_retry)
}

/// All of them.
pub const TABLE: &[Row] = rows! {
    "bind-address" = "10.201.0.9": NoRule("-s 203.0.113.10 -j");
    "bind-address-hard-fail" = "true":
        Test("health_checks/events.rs", "a_process_that_must_end_says_why");
    "check-config" = "true": Scene(answers::checks);
    "cleanup" = "true": Test("cleanup.rs", "kube_proxy_would_leave_the_same");
    "cluster-cidr" = "10.4.1.7/14": Rule("! -s 10.4.0.0/14 -j KUBE-MARK-MASQ");
    "config" = "": Scene(answers::file_counts);
    "config-sync-period" = "1h": Nothing;
    "conntrack-max-per-core" = "200000": Wanted(MAX, 400_000);
    "conntrack-min" = "500000": Wanted(MAX, 500_000);
    "conntrack-tcp-be-liberal" = "true": Setting(LIBERAL, "1");
    "conntrack-tcp-timeout-close-wait" = "7s": Setting(CLOSE_WAIT, "7");
    "conntrack-tcp-timeout-established" = "8s": Setting(ESTABLISHED, "8");
    "conntrack-udp-timeout" = "9s": Setting(UDP, "9");
    "conntrack-udp-timeout-stream" = "11s": Setting(UDP_STREAM, "11");
    "detect-local-mode" = "NodeCIDR": Rule("! -s 10.4.1.0/24 -j KUBE-MARK-MASQ");
    "dry-run" = "": Scene(machine::touches_nothing);
    "shadow" = "": Test("shadow.rs", "a_shadow_measures_and_names_what_a_kube_proxy_does");
    "feature-gates" = "AllowServiceExternalIPs=false": NoRule("default/web external IP");
    "healthz-bind-address" = "127.0.0.1:1234": Scene(machine::listens);
    "healthz-port" = "1234": Deprecated("--healthz-bind-address");
    "help" = "": Test("habits.rs", "every_command_has_examples_and_a_manual_page");
    "hostname-override" = "node2": Rule("--to-destination 10.4.2.12:8080");
    "init-only" = "true": Test("setup.rs", "a_daemon_needs_few_privileges_once_all_is_set_up");
    "iptables-backend" = "legacy": Scene(machine::takes_other_programs);
    "iptables-localhost-nodeports" = "false": Rule("! -d 127.0.0.0/8 -j KUBE-NODEPORTS");
    "iptables-masquerade-bit" = "3": Rule("--or-mark 0x00000008");
    "iptables-min-sync-period" = "7s": Told(gap, "Fixed(7s)");
    "iptables-sync-period" = "7s": Told(periods, "7s 7s");
    "ipvs-exclude-cidrs" = "10.0.0.0/8": Nothing;
    "ipvs-min-sync-period" = "2s": Nothing;
    "ipvs-scheduler" = "rr": Nothing;
    "ipvs-strict-arp" = "true": Nothing;
    "ipvs-sync-period" = "2s": Nothing;
    "ipvs-tcp-timeout" = "2s": Nothing;
    "ipvs-tcpfin-timeout" = "2s": Nothing;
    "ipvs-udp-timeout" = "2s": Nothing;
    "kube-api-burst" = "20": Told(rate, "5 a second, 20 at once");
    "kube-api-content-type" = "application/json":
        Test("bytes.rs", "protobuf_is_no_more_than_kube_proxy_receives_and_less_than_json");
    "kube-api-qps" = "20": Told(rate, "20 a second, 10 at once");
    "kubeconfig" = "": Test("drop_in.rs", "clusters_need_another_image_only");
    "lenient" = "" beside MANIFESTS: Told(validation, "Lenient");
    "log-flush-frequency" = "1s": Nothing;
    "log-json-info-buffer-size" = "64Ki" beside ALPHA: Nothing;
    "log-json-split-stream" = "true" beside ALPHA: Nothing;
    "log-style" = "klog": Told(|config| format!("{:?}", config.log_style), "Klog");
    "log-text-info-buffer-size" = "64Ki" beside ALPHA: Nothing;
    "log-text-split-stream" = "true" beside ALPHA: Nothing;
    "logging-format" = "json": Test("log_formats.rs", "every_line_is_json_if_that_is_the_format");
    "manifests" = "": Test("config_file.rs", "a_file_that_says_the_same_or_nothing_ends_no_daemon");
    "masquerade-all" = "true": Rule("10.96.0.10 --dport 80 -j KUBE-MARK-MASQ");
    "master" = "": Scene(asked::at_an_address);
    "metrics-bind-address" = "127.0.0.1:1234": Scene(machine::listens);
    "metrics-bind-address-override" = "127.0.0.1:1234": Scene(machine::listens);
    "metrics-port" = "1234": Deprecated("--metrics-bind-address");
    "nodeport-addresses" = "127.0.0.0/8": Rule(" -d 127.0.0.1 -j KUBE-NODEPORTS");
    "oom-score-adj" = "7": Test("setup.rs", "a_daemon_asks_not_to_be_killed_for_memory");
    "partial-restore" = "kep-3453": Told(shape, "Kep3453");
    "pod-bridge-interface" = "cbr0" beside OF_BRIDGE BRIDGE_NAME: Rule("! -i cbr0 -j");
    "pod-interface-name-prefix" = "veth" beside OF_PREFIX NAME_PREFIX: Rule("! -i veth+ -j");
    "profiling" = "true": Test("pages.rs", "the_log_level_is_changed_while_running");
    "proxy-mode" = "ipvs": Scene(answers::refuses_modes);
    "service-dispatch" = "tree":
        Told(trees, "TreeThresholds { nat: Some(12), filter: Some(1000) }");
    "service-metrics" = "true": Told(|config| format!("{:?}", config.has_service_metrics), "true");
    "show-hidden-metrics-for-version" = "1.36": Nothing;
    "state-dir" = "/run/x": Told(|config| format!("{:?}", config.state_dir), "Some(\"/run/x\")");
    "status-page" = "false": Scene(machine::serves_no_html);
    "strict" = "" beside CHECK: Scene(answers::checks_strictly);
    "sync-cpu-budget" = "7": Told(gap, "Budget(Some(CpuBudget(7)))");
    "v" = "1": Test("cli.rs", "flags_are_told_from_verbosity_1_on");
    "verify-interval" = "7s": Told(|config| format!("{:?}", config.verify_interval), "Some(7s)");
    "version" = "": Test("cli.rs", "the_version_is_told_and_not_another");
    "vmodule" = "proxier=4": Nothing;
    "write-config-to" = "": Test("cli.rs", "a_written_configuration_is_written_the_same_again");
};
