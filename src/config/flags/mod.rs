//! Flags of each command.
//!
//! Flags of `run`, and those that other commands share with it, are rows of the tables in
//! [`settings`](super::settings). A flag that was not given sets no field, so that flags which a
//! file overrides can be named.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags` (v1.37)

#[cfg(feature = "tools")]
mod inspect;
#[cfg(feature = "tools")]
mod origin;
#[cfg(feature = "tools")]
mod render;
mod run;
mod shared;

#[cfg(feature = "tools")]
pub(crate) use inspect::{ExplainArgs, GraphArg, OutputArg, ServicesArgs, ServicesOutput};
#[cfg(feature = "tools")]
pub(crate) use origin::{ColorArgs, ColorWhen, DesiredArgs, OneReadArgs, OriginArgs};
#[cfg(feature = "tools")]
pub(super) use origin::{NamespaceArgs, SelectionArgs};
#[cfg(feature = "tools")]
pub(crate) use render::{DiffArgs, DiffFormat, RenderArgs};
pub(super) use run::METRICS_OVERRIDE;
pub(crate) use run::{Action, CleanupArgs, ConfigCheck, RunArgs};
pub(crate) use shared::{RulesArgs, SourceArgs};
