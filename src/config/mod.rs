//! Configuration: flags and kube-proxy's file, resolved into the options of every other module.
//!
//! Other modules have small options of their own and do not depend on this one.
//!
//! ```text
//!   commands ─► flags ─┐      (both use the one list of settings)
//!                      ├─► kube_proxy ─► validate ─► resolve
//!   file ──────────────┘                addresses      notes
//! ```

mod addresses;
mod commands;
pub mod environment;
mod feature_gates;
mod flags;
mod go;
mod help;
mod kube_proxy;
mod notes;
mod observability;
mod problems;
mod render_config;
mod resolve;
mod settings;
mod validate;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use commands::{Cli, Command, ProgramName, VERSION, normalize};
pub use flags::{Action, CleanupArgs};
pub use flags::{AddressPattern, ServicesArgs, ServicesOutput};
pub use flags::{DiffArgs, DiffFormat, RulesFileArgs};
pub use flags::{ExplainArgs, GraphArg, OutputArg};
pub use flags::{FamilyArg, OriginArgs, RenderArgs, RulesArgs, RunArgs, SourceArgs};
pub use flags::{NamesArg, NamesArgs};
pub use help::{CommandHelp, help_of};
pub use kube_proxy::ConfigFile;
pub use notes::ignored_settings;
pub use observability::{BindFailure, LoggingFormat, Profiling, Serving};
pub use problems::{ConfigProblem, Unusable};
pub use render_config::{RenderConfig, Source};
pub use resolve::{Config, desired, run};
pub use settings::VersionArg;
pub use validate::NodeSettings;

/// Interval of full syncs without any other reason.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `proxyutil.FullSyncPeriod` (v1.36)
pub const FULL_SYNC_PERIOD: Duration = Duration::from_secs(3600);
