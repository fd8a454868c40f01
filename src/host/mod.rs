//! The only module that touches this machine: programs, interfaces, kernel settings, connections.
//!
//! Apart so that everything above it can be tested against a double of [`Iptables`].

mod child_cpu;
mod conntrack;
mod conntrack_answer;
mod conntrack_message;
mod conntrack_settings;
mod conntrack_walk;
mod dry_run;
mod excerpt;
mod exec;
mod fake;
mod foreign_change;
mod hint;
mod interfaces;
mod iptables;
mod list;
mod lock_wait;
mod lock_watch;
mod netlink;
mod nfacct;
mod nfacct_message;
mod nft_events;
mod nft_jumps;
mod nft_tables;
mod nft_watch;
mod oom;
mod open_files;
mod other_sets;
mod payload_log;
mod process;
mod programs;
mod restore_error;
mod run_error;
mod save;
mod sections;
mod size_watch;
mod sysctl;
mod table_size;
mod table_watch;
mod tail;
#[cfg(test)]
mod tests;

pub use child_cpu::thread_cpu;
pub use conntrack::{Conntrack, FlowError, FlowTable};
pub use conntrack_settings::{ConntrackSettings, Wanted, processors};
pub use dry_run::DryRun;
pub use excerpt::{Excerpt, excerpt};
pub use exec::{Exec, Options};
pub use fake::{Fake, Fault, Poison};
pub use foreign_change::{ChangeSource, ForeignChange, Touched};
pub use interfaces::{
    IPVS_INTERFACE, IPVS_REMEDY, InterfaceAddress, has_interface, interface_addresses,
    local_addresses,
};
pub use iptables::{Features, Iptables, ListedChains, Restored, Version, Watched};
pub use nfacct::{NoCounter, counted_packets};
pub use nft_tables::{NftError, has_nft_table, remove_nft_table};
pub use oom::set_oom_score_adj;
pub use open_files::raise_open_files;
pub use other_sets::{all_programs, hinted_backend, other_backend};
pub use payload_log::{KeepApplied, PayloadHooks, PayloadLog};
pub use programs::{BackendChoice, Programs};
pub use restore_error::RestoreError;
pub use run_error::{Ending, RunError};
pub use sysctl::Written;
pub use sysctl::{Changed, DISABLE_IPV6, ROUTE_LOCALNET, SysctlError, Sysctls, TCP_BE_LIBERAL};
