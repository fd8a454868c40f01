//! Reads and writes the rules in the kernel with the iptables binaries, and notices changes by
//! other programs.

mod backend;
mod binaries;
mod dry_run;
mod exec;
mod fake;
mod interface;
mod listing;
mod lock;
mod nft_watch;
mod outcome;
mod payload;
mod payload_log;
mod process;
mod table_size;
mod table_watch;

pub use backend::{BackendChoice, all_binaries, kubelet_backend, other_backend};
pub use binaries::{Binaries, Features, Version};
pub use dry_run::DryRun;
pub use exec::{Exec, ExecOptions};
pub use fake::{Fake, Fault, Poison};
pub use interface::{
    ChangeDetection, ChangeSource, ForeignChange, Iptables, ListedChains, Touched,
};
pub use outcome::{CounterError, RestoreError, Restored, RunError};
pub use payload::{Excerpt, excerpt};
pub use payload_log::{KeepApplied, PayloadHooks, PayloadLog};
pub use process::ProgramExit;
#[cfg(test)]
pub(super) use {
    backend::BinarySearch,
    outcome::{restore_result, unprintable},
    process::{Finished, Input},
};
