//! What is served and logged.
//!
//! Apart because the flags that log count beside a file, and because addresses and ports have
//! been flags of their own once.

use clap::{ArgAction, Args};

use super::set;
use crate::config::duration::GoDuration;
use crate::config::go::{self, VModules};
use crate::config::kube_proxy::{
    FlushFrequency, HEALTHZ_PORT, KubeProxyConfiguration, METRICS_PORT, OFF, Quantity, add_port,
};

/// What is served.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observability")]
pub struct ServeArgs {
    /// Where Prometheus finds /metrics; `off` or nothing for nowhere [default: 127.0.0.1:10249]
    #[arg(long, value_name = "IP[:PORT]")]
    pub metrics_bind_address: Option<String>,
    /// Where load balancers and probes find /healthz and /livez; `off` or nothing for nowhere
    /// [default: 0.0.0.0:10256]
    #[arg(long, value_name = "IP[:PORT]")]
    pub healthz_bind_address: Option<String>,
    /// Serve /debug/flags/v beside metrics, which changes -v while running, and
    /// /debug/payload/, which shows the last payloads [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub profiling: Option<bool>,
    /// End if one of these addresses cannot be listened on, instead of trying again
    /// [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool)]
    pub bind_address_hard_fail: Option<bool>,
    /// Deprecated: the port of a --metrics-bind-address without one; 0 serves no metrics
    #[arg(long, value_name = "PORT", value_parser = go::port)]
    pub metrics_port: Option<u16>,
    /// Deprecated: the port of a --healthz-bind-address without one; 0 serves no health
    #[arg(long, value_name = "PORT", value_parser = go::port)]
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

/// A port alone does nothing, unless it is 0: then nothing is served, and neither if the address is
/// empty. It is written as a file says it, where an empty one is the default.
///
/// Upstream: `cmd/kube-proxy/app/options.go`, `addressFromDeprecatedFlags` (v1.36)
///
/// Differs from upstream: its help says of an empty address that it disables the server, but there
/// it takes the default, and without metrics it ends with an error. What is written to a file there
/// says nothing of ports.
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

/// What is logged. These count beside --config.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observability")]
pub struct LogArgs {
    /// How much to log: 2 adds partial restores, 4 their text [default: 0]
    #[arg(short = 'v', long = "v", value_name = "LEVEL")]
    pub verbosity: Option<u32>,
    /// How to log: `text` or `json` [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub logging_format: Option<String>,
    /// Verbosity by source file of kube-proxy; no effect
    #[arg(
        long,
        value_name = "PATTERN=N,...",
        help_heading = "Accepted without effect"
    )]
    pub vmodule: Vec<VModules>,
    /// How often to flush; no effect, as every line is written at once [default: 5s]
    #[arg(
        long,
        value_name = "DURATION",
        help_heading = "Accepted without effect"
    )]
    pub log_flush_frequency: Option<GoDuration>,
    /// Errors on stderr, the rest on stdout; no effect, as stderr has all [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool,
          help_heading = "Accepted without effect")]
    pub log_text_split_stream: Option<bool>,
    /// The same for format json; no effect [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = go::bool,
          help_heading = "Accepted without effect")]
    pub log_json_split_stream: Option<bool>,
    /// A buffer for the rest; no effect [default: 0]
    #[arg(
        long,
        value_name = "QUANTITY",
        help_heading = "Accepted without effect"
    )]
    pub log_text_info_buffer_size: Option<Quantity>,
    /// The same for format json; no effect [default: 0]
    #[arg(
        long,
        value_name = "QUANTITY",
        help_heading = "Accepted without effect"
    )]
    pub log_json_info_buffer_size: Option<Quantity>,
}

impl LogArgs {
    /// Of `vmodule`, the flags come first and the rest stays.
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
