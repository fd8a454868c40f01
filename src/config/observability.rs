//! Resolution of the settings of the metrics and health servers and of logging.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/server.go`,
//! staging/src/k8s.io/component-base/logs/api/v1/options.go, `Validate` (v1.37)

use std::net::SocketAddr;

use super::feature_gates::{ALL_ALPHA, ALL_BETA, LOGGING_ALPHA, LOGGING_BETA};
use super::kube_proxy::{FormatOptions, KubeProxyConfiguration, OFF};
use super::problems::{ConfigProblems, unknown};
use super::validate;

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
        text => validate::serving_address(path, text, problems).map(Some),
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
    validate::positive(path, logging.flush_frequency.0, problems);
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
