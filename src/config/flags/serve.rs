//! Flags of the metrics and health servers and of logging.

use std::str::FromStr;

use clap::{ArgAction, Args};

use super::set;
use crate::config::go::{self, GoDuration};
use crate::config::kube_proxy::{
    FlushFrequency, HEALTHZ_PORT, KubeProxyConfiguration, METRICS_PORT, OFF, Quantity, VModule,
    add_port,
};

/// Metrics and health servers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observability")]
pub struct ServeArgs {
    /// Metrics address, or off [default: 127.0.0.1:10249]
    ///
    /// Serves /metrics for Prometheus. An empty address means `off`.
    #[arg(long, value_name = "IP[:PORT]")]
    pub metrics_bind_address: Option<String>,
    /// Health address, or off [default: 0.0.0.0:10256]
    ///
    /// Serves /healthz and /livez for load balancers and probes. An empty address means `off`.
    #[arg(long, value_name = "IP[:PORT]")]
    pub healthz_bind_address: Option<String>,
    /// Profiling pages on the metrics address [default: false]
    ///
    /// Serves /debug/flags/v, which changes -v at run time, and /debug/pprof/profile, a CPU
    /// profile of each thread.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool,
          hide_short_help = true)]
    pub profiling: Option<bool>,
    /// Exit if a metrics or health address is not available [default: false]
    ///
    /// Otherwise, listening is retried.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool,
          hide_short_help = true)]
    pub bind_address_hard_fail: Option<bool>,
    /// Deprecated: default port of --metrics-bind-address; 0 disables it
    #[arg(long, value_name = "PORT", value_parser = go::port, hide_short_help = true)]
    pub metrics_port: Option<u16>,
    /// Deprecated: default port of --healthz-bind-address; 0 disables it
    #[arg(long, value_name = "PORT", value_parser = go::port, hide_short_help = true)]
    pub healthz_port: Option<u16>,
}

impl ServeArgs {
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        address(
            &mut to.metrics_bind_address,
            self.metrics_bind_address.as_deref(),
            self.metrics_port.unwrap_or(METRICS_PORT),
        );
        address(
            &mut to.healthz_bind_address,
            self.healthz_bind_address.as_deref(),
            self.healthz_port.unwrap_or(HEALTHZ_PORT),
        );
        set(&mut to.enable_profiling, self.profiling.as_ref());
        set(
            &mut to.bind_address_hard_fail,
            self.bind_address_hard_fail.as_ref(),
        );
    }
}

/// Sets an address from its flag and its deprecated port flag. Port 0 and an empty address disable
/// the server; any other port only completes an address that has none. A disabled server is
/// written as `off`, because an empty address in a file means the default.
///
/// Upstream: `cmd/kube-proxy/app/options.go`, `addressFromDeprecatedFlags` (v1.36)
///
/// Differs from upstream: its help says that an empty address disables the server, but there it
/// means the default, and without metrics it ends with an error. A file that upstream writes lacks
/// the deprecated ports.
fn address(field: &mut String, flag: Option<&str>, port: u16) {
    if let Some(given) = flag {
        given.clone_into(field);
    }
    if port == 0 || field.is_empty() {
        OFF.clone_into(field);
    } else {
        add_port(field, port);
    }
}

/// Logging. These flags override the file of `--config`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observability")]
pub struct LogArgs {
    /// Log verbosity [default: 0]
    ///
    /// From 2 on, partial restores are logged; from 4 on, their input.
    #[arg(short = 'v', long = "v", value_name = "LEVEL")]
    pub verbosity: Option<u32>,
    /// Log format, text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub logging_format: Option<String>,
    /// Log verbosity for source files of kube-proxy
    #[arg(
        long,
        value_name = "PATTERN=N,...",
        help_heading = "Accepted without effect",
        hide_short_help = true
    )]
    pub vmodule: Vec<VModules>,
    /// Interval of log flushes; every line is written at once [default: 5s]
    #[arg(
        long,
        value_name = "DURATION",
        help_heading = "Accepted without effect",
        hide_short_help = true
    )]
    pub log_flush_frequency: Option<GoDuration>,
    /// Split of text logs; all of them are on stderr [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool,
          help_heading = "Accepted without effect", hide_short_help = true)]
    pub log_text_split_stream: Option<bool>,
    /// Split of JSON logs; all of them are on stderr [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool,
          help_heading = "Accepted without effect", hide_short_help = true)]
    pub log_json_split_stream: Option<bool>,
    /// Buffer size for text logs on stdout [default: 0]
    #[arg(
        long,
        value_name = "QUANTITY",
        help_heading = "Accepted without effect",
        hide_short_help = true
    )]
    pub log_text_info_buffer_size: Option<Quantity>,
    /// Buffer size for JSON logs on stdout [default: 0]
    #[arg(
        long,
        value_name = "QUANTITY",
        help_heading = "Accepted without effect",
        hide_short_help = true
    )]
    pub log_json_info_buffer_size: Option<Quantity>,
}

impl LogArgs {
    /// Sets the fields whose flags were given. Entries of `--vmodule` come before those of a file.
    pub(in crate::config) fn apply(&self, to: &mut KubeProxyConfiguration) {
        let logging = &mut to.logging;
        set(&mut logging.verbosity, self.verbosity.as_ref());
        set(&mut logging.format, self.logging_format.as_ref());
        let flush = self.log_flush_frequency.map(FlushFrequency);
        set(&mut logging.flush_frequency, flush.as_ref());
        let entries = self.vmodule.iter().flat_map(|entries| &entries.0);
        logging.vmodule.splice(0..0, entries.cloned());
        let (text, json) = (&mut logging.options.text, &mut logging.options.json);
        set(&mut text.split_stream, self.log_text_split_stream.as_ref());
        set(&mut json.split_stream, self.log_json_split_stream.as_ref());
        set(
            &mut text.info_buffer_size,
            self.log_text_info_buffer_size.as_ref(),
        );
        set(
            &mut json.info_buffer_size,
            self.log_json_info_buffer_size.as_ref(),
        );
    }
}

/// Value of `--vmodule`.
#[derive(Debug, Clone, PartialEq)]
pub struct VModules(Vec<VModule>);

impl FromStr for VModules {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entries = text.split(',').filter(|entry| !entry.is_empty());
        entries.map(vmodule).collect::<Result<_, _>>().map(Self)
    }
}

fn vmodule(entry: &str) -> Result<VModule, String> {
    let (pattern, level) = entry
        .split_once('=')
        .ok_or_else(|| format!("\"{entry}\" is not a valid entry (example: pattern=2)"))?;
    let verbosity = level
        .parse()
        .map_err(|_| format!("\"{level}\" is not a valid verbosity"))?;
    Ok(VModule {
        file_pattern: pattern.to_owned(),
        verbosity,
    })
}
