//! The flags of `cleanup`.
//!
//! Apart from those of `run` because nothing that shapes rules matters to their removal.

use clap::Args;

use super::rules::BackendArg;
use crate::host::BackendChoice;

/// Flags of `cleanup`.
#[derive(Debug, Clone, Args)]
pub struct CleanupArgs {
    /// Print what would be restored instead of restoring it
    #[arg(long)]
    pub dry_run: bool,
    /// Whose rules, `nft`'s or `legacy`'s; without it those of both backends
    #[arg(long, value_name = "BACKEND", value_enum)]
    pub iptables_backend: Option<BackendArg>,
}

impl CleanupArgs {
    /// The programs to use; anything but one set of them stands for both.
    pub fn backend(&self) -> BackendChoice {
        self.iptables_backend
            .map_or_else(BackendChoice::default, Into::into)
    }
}
