//! The logging section.
//!
//! Apart because kube-proxy checks it apart, by rules that it shares with other programs.
//!
//! # Source
//!
//! Upstream: staging/src/k8s.io/component-base/logs/api/v1/options.go, `Validate` (v1.36)

use super::Problems;
use super::limits::positive;
use crate::config::feature_gates::{ALL_ALPHA, ALL_BETA, LOGGING_ALPHA, LOGGING_BETA};
use crate::config::kube_proxy::{FormatOptions, KubeProxyConfiguration};
use crate::config::resolved::LoggingFormat;

/// How, and how much, to log.
pub(in crate::config) fn logging(
    configuration: &KubeProxyConfiguration,
    problems: &mut Problems,
) -> Option<(LoggingFormat, u8)> {
    let logging = &configuration.logging;
    let format = match logging.format.as_str() {
        "text" => Ok(LoggingFormat::Text),
        "json" => Ok(LoggingFormat::Json),
        other => Err(format!("`{other}` is no format; write `text` or `json`")),
    };
    let format = problems.keep("logging.format", format);
    let path = "logging.flushFrequency";
    positive(path, logging.flush_frequency.0, problems);
    let most = i32::MAX.unsigned_abs();
    if logging.verbosity > most {
        let problem = format!("{} is more than {most}", logging.verbosity);
        problems.add("logging.verbosity", problem);
    }
    vmodule(configuration, format, problems);
    gates(configuration, format, problems);
    let verbosity = u8::try_from(logging.verbosity).unwrap_or(u8::MAX);
    Some((format?, verbosity))
}

fn vmodule(
    configuration: &KubeProxyConfiguration,
    format: Option<LoggingFormat>,
    problems: &mut Problems,
) {
    let path = "logging.vmodule";
    let entries = &configuration.logging.vmodule;
    if !entries.is_empty() && format == Some(LoggingFormat::Json) {
        problems.add(path, "goes with format `text` only");
    }
    for entry in entries {
        let pattern = &entry.file_pattern;
        if pattern.is_empty() || pattern.contains(['=', ',']) {
            problems.add(path, format!("`{pattern}` is no pattern of file names"));
        }
    }
}

/// What takes a gate: format `json`, one that is open by itself, and what may go away again, one
/// that is not.
fn gates(
    configuration: &KubeProxyConfiguration,
    format: Option<LoggingFormat>,
    problems: &mut Problems,
) {
    let gates = &configuration.feature_gates;
    let gate = |name: &str, all: &str| gates.get(name).or_else(|| gates.get(all));
    if format == Some(LoggingFormat::Json) && gate(LOGGING_BETA, ALL_BETA) == Some(&false) {
        let problem = format!("`json` needs the feature gate {LOGGING_BETA}");
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
            // Of a file, kube-proxy forgets it before it looks, so that there are such files.
            ("splitStream", *split_stream && !problems.is_of_file()),
            ("infoBufferSize", !info_buffer_size.is_zero()),
        ];
        for (field, _) in set.iter().filter(|(_, is_set)| *is_set) {
            let path = format!("logging.options.{name}.{field}");
            problems.add(&path, format!("needs the feature gate {LOGGING_ALPHA}"));
        }
    }
}
