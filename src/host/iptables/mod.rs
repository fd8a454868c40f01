//! Reads and writes the rules in the kernel with the iptables binaries, and notices changes by
//! other programs.

mod binaries;
mod exec;
#[cfg(feature = "testing")]
#[path = "tests/fake.rs"]
mod fake;
mod interface;
mod lock;
mod nft_watch;
mod payload;
mod process;
mod table_size;
mod table_watch;

#[cfg(test)]
pub(crate) use binaries::Version;
pub use binaries::{BackendChoice, Binaries};
pub(crate) use binaries::{
    OtherBackendSigns, all_binaries, has_table, kubelet_backend, other_backend,
    other_backend_signs, other_rules,
};
pub(crate) use exec::DryRun;
pub use exec::Exec;
#[cfg(test)]
pub(crate) use fake::Poison;
#[cfg(feature = "testing")]
pub use fake::{Fake, Fault};
pub(crate) use interface::{
    ChainRemoval, ChangeDetection, ChangeSource, Excerpt, ForeignChange, excerpt, is_untouched,
};
pub use interface::{CounterError, Iptables, ListedChains, RestoreError, Restored, RunError};
pub(crate) use lock::UnsharedLock;
pub(crate) use nft_watch::OwnTransactions;
pub(crate) use payload::FailedPayloads;
pub use process::ProgramExit;
#[cfg(test)]
pub(super) use {
    binaries::BinarySearch,
    interface::{restore_result, unprintable},
    process::{Finished, Input},
};
