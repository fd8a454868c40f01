//! Rules of both families, from the daemon on this node, from the kernel, from dumps, rebuilt from
//! a history or rendered from objects.
//!
//! The one place where commands obtain rules: a flag means the same in `diff`, `explain` and
//! `services`. Another source of the rules of a host belongs into [`RuleSnapshot::of_host`].

mod counters;
mod desired;
mod dump;
mod load;
mod nodes;
mod objects;
mod past;
mod proxy_report;
mod recorded;
mod rules;
mod rules_page;

pub(super) use counters::{PortCounters, RuleCounters};
pub(super) use desired::{RenderSide, options};
pub(super) use nodes::{compare_rules, of_node};
pub(super) use objects::{
    ask, list_error, manifest_trackers, names_with_labels, read as read_objects,
};
pub(super) use past::open as open_history;
#[cfg(feature = "testing")]
pub use past::past_rules;
pub(super) use proxy_report::{Conflicts, ServiceNames};
pub(super) use rules::{RuleOrigin, RuleSnapshot};
