//! The only module that touches this node: iptables binaries, netlink, kernel settings, interfaces.
//!
//! Everything above it can be tested with [`Fake`], an [`Iptables`] without a kernel.

mod iptables;
mod netlink;
mod node;
#[cfg(test)]
mod tests;

pub use iptables::{
    BackendChoice, Binaries, CounterError, Exec, ExecOptions, Fake, Fault, Iptables, ListedChains,
    RestoreError, Restored, RunError,
};
pub(crate) use iptables::{
    ChangeDetection, ChangeSource, DryRun, Excerpt, ForeignChange, KeepApplied, PayloadHooks,
    PayloadLog, ProgramExit, Touched, all_binaries, excerpt, kubelet_backend, other_backend,
};
#[cfg(test)]
pub(crate) use iptables::{Poison, Version};
pub use netlink::{Conntrack, FlowTable};
pub(crate) use netlink::{FlowError, counted_packets, has_nft_table, remove_nft_table};
#[cfg(test)]
pub(crate) use node::interface_addresses;
pub use node::local_addresses;
pub(crate) use node::{
    Changed, ConntrackSettings, IPVS_INTERFACE, IPVS_REMEDY, ROUTE_LOCALNET, SysctlError, Sysctls,
    TCP_BE_LIBERAL, has_interface, processors, raise_open_files, set_oom_score_adj, thread_cpu,
};
