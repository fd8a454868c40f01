//! Flags and kube-proxy's file, resolved into the options of every other module.
//!
//! Apart, and on top, because configuration knows everyone and nobody knows configuration: each
//! module has small options of its own.
//!
//! ```text
//!   command_line ─► args, flags ─┐
//!                                ├─► kube_proxy ─► validate ─► resolve ─► resolved
//!   file ────────────────────────┘    defaults
//! ```

mod args;
mod command_line;
mod duration;
pub mod environment;
mod feature_gates;
mod fields;
mod flags;
mod flagz;
mod go;
mod kube_proxy;
mod notes;
mod render_config;
mod resolve;
mod resolved;
mod validate;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use args::{Cli, Command, VERSION};
pub use command_line::normalize;
pub use flags::{Action, ActionArgs, CleanupArgs, VersionArg};
pub use flags::{AddressPattern, ServicesArgs, ServicesOutput};
pub use flags::{DiffArgs, DiffFormat, RulesFileArgs};
pub use flags::{ExplainArgs, GraphArg, OutputArg};
pub use flags::{FamilyArg, OriginArgs, RenderArgs, RulesArgs, RunArgs, SourceArgs};
pub use flags::{NamesArg, NamesArgs};
pub use resolve::{desired, in_vain, run};
pub use resolved::{
    Config, ConfigFile, LoggingFormat, NodeSettings, Profiling, RenderConfig, Serving, Source,
    Taken,
};
pub use validate::{Problem, Unusable};

/// How often a sync is full although nothing calls for it.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `proxyutil.FullSyncPeriod` (v1.36)
pub const FULL_SYNC_PERIOD: Duration = Duration::from_secs(3600);
