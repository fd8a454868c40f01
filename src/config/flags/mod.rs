//! Flags of each command.
//!
//! Flags of `run`, and those that other commands share with it, are rows of the tables in
//! [`settings`](super::settings). A flag that was not given sets no field, so that flags which a
//! file overrides can be named.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags` (v1.37)

mod inspect;
mod render;
mod run;
mod shared;

pub(crate) use inspect::{ExplainArgs, GraphArg, OutputArg, ServicesArgs, ServicesOutput};
pub(crate) use render::{DiffArgs, DiffFormat, RenderArgs};
pub(super) use run::METRICS_OVERRIDE;
pub(crate) use run::{Action, CleanupArgs, ConfigCheck, RunArgs};

pub(crate) use shared::{ColorArgs, ColorWhen, OriginArgs};
pub(super) use shared::{NamespaceArgs, SelectionArgs};
pub(crate) use shared::{OneReadArgs, RulesArgs, RulesFileArgs, SourceArgs};
