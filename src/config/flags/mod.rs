//! kube-proxy's flags and ours, by what they are about.
//!
//! Apart from [`args`](super::args), the commands, because each group says for itself what it sets
//! in the [configuration](super::kube_proxy). A flag that is not given sets nothing, so that it is
//! known which were.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/options.go`, `AddFlags` (v1.36)

mod action;
mod asked;
mod cleanup;
mod diff;
mod explain;
mod file;
mod names;
mod node;
mod origin;
mod render;
mod rules;
mod run;
mod serve;
mod services;
mod source;
mod sync;
mod unused;

pub use action::{Action, ActionArgs, VersionArg};
pub(super) use asked::AskedArgs;
pub use cleanup::CleanupArgs;
pub use diff::{DiffArgs, DiffFormat};
pub use explain::{ExplainArgs, GraphArg, OutputArg};
pub use file::RulesFileArgs;
pub use names::{NamesArg, NamesArgs};
pub(super) use node::NodeArgs;
pub use origin::OriginArgs;
pub use render::{FamilyArg, RenderArgs};
pub use rules::RulesArgs;
pub use run::RunArgs;
pub(super) use serve::{LogArgs, ServeArgs};
pub use services::{AddressPattern, ServicesArgs, ServicesOutput};
pub use source::SourceArgs;
pub(super) use sync::SyncArgs;
pub(super) use unused::{FileArgs, IpvsArgs, UnusedArgs};

/// Sets a field if its flag was given.
fn set<T: Clone>(field: &mut T, flag: Option<&T>) {
    if let Some(value) = flag {
        field.clone_from(value);
    }
}

/// The same for a field that may be unset.
fn set_some<T: Clone>(field: &mut Option<T>, flag: Option<&T>) {
    if flag.is_some() {
        *field = flag.cloned();
    }
}
