//! Facts and settings of this node: sysctls, limits of conntrack, addresses of interfaces, and the
//! resources of this process.

mod conntrack_settings;
mod interfaces;
mod resources;
mod sysctl;

pub use conntrack_settings::{ConntrackSettings, DesiredSysctl, processors};
pub use interfaces::{
    IPVS_INTERFACE, IPVS_REMEDY, InterfaceAddress, has_interface, interface_addresses,
    local_addresses,
};
pub(super) use resources::{raise_oom_score_adj, wait};
pub use resources::{raise_open_files, set_oom_score_adj, thread_cpu};
pub use sysctl::{
    Changed, DISABLE_IPV6, ROUTE_LOCALNET, SysctlChange, SysctlError, Sysctls, TCP_BE_LIBERAL,
};
