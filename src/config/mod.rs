//! Configuration: flags and kube-proxy's file, resolved into the options of every other module.
//!
//! Other modules have small options of their own and do not depend on this one.
//!
//! ```text
//!   command line ─► flags ─┐
//!                          ├─► KubeProxyConfiguration ─► resolve ─► Config and notes, or
//!   file ──────────────────┘                               │        all problems
//!                                validate
//! ```
//!
//! `settings` is the one list of flags and fields; flags of clap, help, defaults and `/flagz` come
//! from it.

mod commands;
pub(crate) mod environment;
mod feature_gates;
mod flags;
mod go;
mod help;
#[cfg(feature = "tools")]
mod history_flags;
mod kube_proxy;
mod problems;
mod render_config;
mod resolve;
mod settings;
#[cfg(feature = "tools")]
mod tool_flags;
#[cfg(feature = "tools")]
mod tool_help;
mod validate;

#[cfg(test)]
mod tests;

use std::time::Duration;

#[cfg(feature = "tools")]
pub(crate) use commands::is_flag;
pub use commands::{Cli, Command};
pub(crate) use commands::{NODE_COMMANDS, VERSION, normalize};
pub(crate) use environment::ProgramName;
pub(crate) use flags::{Action, CleanupArgs, ConfigCheck, RunArgs, SourceArgs};
#[cfg(feature = "tools")]
pub(crate) use help::{CommandHelp, INVALID_FLAGS};
#[cfg(feature = "tools")]
pub(crate) use history_flags::{BundleArgs, HistoryArgs};
pub(crate) use kube_proxy::ConfigFile;
pub(crate) use problems::ConfigNote;
pub use problems::Unusable;
pub(crate) use render_config::RenderConfig;
pub use render_config::Source;
pub use resolve::{Config, run};
#[cfg(feature = "tools")]
pub(crate) use resolve::{SHADOW_METRICS, metrics_address, rendering};
pub(crate) use settings::LogStyle;
#[cfg(all(test, feature = "tools"))]
pub(crate) use tool_flags::OutputArgs;
#[cfg(feature = "tools")]
pub(crate) use tool_flags::{
    CheckArgs, ColorWhen, DaemonArgs, DesiredArgs, DiffArgs, DiffFormat, ExpectArg, ExplainArgs,
    GraphArg, OriginArgs, OutputArg, PastTime, RenderArgs, ServicesArgs, ServicesOutput,
    ShadowReportArgs, StatusArgs,
};
#[cfg(feature = "tools")]
pub(crate) use tool_help::{ENVIRONMENT, FILES, help_of};
pub(crate) use validate::{BindFailure, LoggingFormat, NodeSettings, Serving};

/// Interval of full syncs without any other reason.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `proxyutil.FullSyncPeriod` (v1.37)
pub(crate) const FULL_SYNC_PERIOD: Duration = Duration::from_secs(3600);
