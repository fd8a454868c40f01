//! Flags of kube-proxy and of deltaproxy, in one group for each topic.
//!
//! Each group has an `apply`, which sets the fields of the [configuration](super::kube_proxy) that
//! its flags have. A flag that was not given sets nothing, so that flags which a file overrides
//! can be named.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags` (v1.36)

mod daemon;
mod inert;
mod inspect;
mod render;
mod rules;
mod run;
mod serve;
mod source;

pub(super) use daemon::{NodeArgs, SyncArgs};
pub(super) use inert::{IpvsArgs, UnusedArgs};
pub use inspect::{AddressPattern, ServicesArgs, ServicesOutput};
pub use inspect::{ExplainArgs, GraphArg, OutputArg};
pub use render::{DiffArgs, DiffFormat, FamilyArg, RenderArgs};
pub use rules::{RulesArgs, RulesFileArgs};
pub use run::{Action, ActionArgs, CleanupArgs, RunArgs, VersionArg};
pub(super) use serve::{LogArgs, ServeArgs};
pub(super) use source::SelectionArgs;
pub use source::{NamesArg, NamesArgs, OriginArgs, SourceArgs};

/// Sets a field if its flag was given.
fn set<T: Clone>(field: &mut T, flag: Option<&T>) {
    if let Some(value) = flag {
        field.clone_from(value);
    }
}

/// Sets an optional field if its flag was given.
fn set_some<T: Clone>(field: &mut Option<T>, flag: Option<&T>) {
    if flag.is_some() {
        *field = flag.cloned();
    }
}
