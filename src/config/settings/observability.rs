//! Settings of the metrics and health servers and of logging.

use super::kind::SettingKind::{Bool, Port, Text, Verbosity};
use super::setting::{Setting, SettingSection};

/// Metrics and health servers, and logging.
pub(super) const OBSERVABILITY: SettingSection = SettingSection {
    heading: Some("Observability"),
    settings: &[
        // In a file, the defaults of both addresses depend on the bind address.
        Setting::new(
            "metricsBindAddress",
            "metrics-bind-address",
            Text("IP[:PORT]"),
        )
        .help("Metrics address, or off [default: 127.0.0.1:10249]")
        .more("Serves /metrics for Prometheus. An empty address means `off`.")
        .in_short_help(),
        Setting::new(
            "healthzBindAddress",
            "healthz-bind-address",
            Text("IP[:PORT]"),
        )
        .help("Health address, or off [default: 0.0.0.0:10256]")
        .more(
            "Serves /healthz and /livez for load balancers and probes. An empty address means \
             `off`.",
        )
        .in_short_help(),
        Setting::new("enableProfiling", "profiling", Bool)
            .default("false")
            .help("Debugging pages on the metrics address")
            .more(
                "Serves /debug/flags/v, which changes -v at run time, and /debug/payload/, the \
                 last restores, on a loopback address. /debug/pprof/ recommends perf.",
            ),
        Setting::new("bindAddressHardFail", "bind-address-hard-fail", Bool)
            .default("false")
            .help("Exit if a metrics or health address is not available")
            .more("Otherwise, listening is retried."),
        Setting::flag("metrics-port", Port)
            .flag_default("10249")
            .help("Deprecated: default port of --metrics-bind-address; 0 disables it"),
        Setting::flag("healthz-port", Port)
            .flag_default("10256")
            .help("Deprecated: default port of --healthz-bind-address; 0 disables it"),
        Setting::new("logging.verbosity", "v", Verbosity)
            .short('v')
            .default("0")
            .help("Log verbosity")
            .more("From 2 on, partial restores are logged; from 4 on, their input.")
            .in_short_help(),
        Setting::new("logging.format", "logging-format", Text("FORMAT"))
            .default("text")
            .help("Log format, text or json")
            .in_short_help(),
    ],
};
