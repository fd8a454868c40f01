//! The only module that touches this node: iptables binaries, netlink, kernel settings, interfaces.
//!
//! Everything above it can be tested with `Fake`, an [`Iptables`] without a kernel, which only the
//! feature `testing` has.

mod interfaces;
mod iptables;
mod netlink;
mod resources;
mod sysctl;
#[cfg(test)]
mod tests;

pub use interfaces::local_addresses;
pub(crate) use interfaces::{AddressWatch, IPVS_INTERFACE, IPVS_REMEDY, has_interface};
pub use iptables::{
    BackendChoice, Binaries, CounterError, Exec, Iptables, ListedChains, ProgramExit, RestoreError,
    Restored, RunError,
};
pub(crate) use iptables::{
    ChainRemoval, ChangeDetection, ChangeSource, DryRun, Excerpt, FailedPayloads, ForeignChange,
    OtherBackendSigns, OwnTransactions, UnsharedLock, all_binaries, excerpt, has_table,
    is_untouched, kubelet_backend, other_backend, other_backend_signs, other_rules,
};
#[cfg(feature = "testing")]
pub use iptables::{Fake, Fault};
#[cfg(test)]
pub(crate) use iptables::{Poison, Version};
#[cfg(feature = "tools")]
pub(crate) use netlink::KernelLookup;
#[cfg(feature = "testing")]
pub use netlink::nftables::generation as nft_generation;
pub use netlink::{Conntrack, FlowTable};
pub(crate) use netlink::{FlowError, counted_packets, has_nft_table, remove_nft_table};
#[cfg(feature = "tools")]
pub(crate) use resources::in_own_network;
pub(crate) use resources::{max_open_files, raise_open_files, set_oom_score_adj, thread_cpu};
pub(crate) use sysctl::{Changed, ROUTE_LOCALNET, SysctlError, Sysctls, TCP_BE_LIBERAL};
pub(crate) use sysctl::{ConntrackSettings, processors};
