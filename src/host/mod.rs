//! The only module that touches this node: iptables binaries, netlink, kernel settings, interfaces.
//!
//! Everything above it can be tested with [`Fake`], an [`Iptables`] without a kernel.

mod iptables;
mod netlink;
mod node;
#[cfg(test)]
mod tests;

pub use iptables::{
    BackendChoice, Binaries, ChangeDetection, ChangeSource, CounterError, DryRun, Excerpt, Exec,
    ExecOptions, Fake, Fault, Features, ForeignChange, Iptables, KeepApplied, ListedChains,
    PayloadHooks, PayloadLog, Poison, ProgramExit, RestoreError, Restored, RunError, Touched,
    Version, all_binaries, excerpt, kubelet_backend, other_backend,
};
pub use netlink::{
    Conntrack, FlowError, FlowTable, NftError, counted_packets, has_nft_table, remove_nft_table,
};
pub use node::{
    Changed, ConntrackSettings, DISABLE_IPV6, DesiredSysctl, IPVS_INTERFACE, IPVS_REMEDY,
    InterfaceAddress, ROUTE_LOCALNET, SysctlChange, SysctlError, Sysctls, TCP_BE_LIBERAL,
    has_interface, interface_addresses, local_addresses, processors, raise_open_files,
    set_oom_score_adj, thread_cpu,
};
