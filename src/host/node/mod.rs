//! Facts and settings of this node: sysctls, limits of conntrack, addresses of interfaces, and the
//! resources of this process.

mod conntrack_settings;
mod interfaces;
mod resources;
mod sysctl;

pub(crate) use conntrack_settings::{ConntrackSettings, processors};
#[cfg(test)]
pub(crate) use interfaces::interface_addresses;
pub use interfaces::local_addresses;
pub(crate) use interfaces::{IPVS_INTERFACE, IPVS_REMEDY, has_interface};
pub(super) use resources::{raise_oom_score_adj, wait};
pub(crate) use resources::{raise_open_files, set_oom_score_adj, thread_cpu};
pub(crate) use sysctl::{Changed, ROUTE_LOCALNET, SysctlError, Sysctls, TCP_BE_LIBERAL};
