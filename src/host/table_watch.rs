//! Waits for other programs to change our tables: by notifications of nftables, or by the sizes of
//! legacy tables.

use super::foreign_change::ForeignChange;
use super::nft_watch::{NftWatch, OwnRestore, generation};
use super::size_watch::SizeWatch;
use crate::net::IpFamily;
use crate::rules::Backend;

/// The tables of one family and backend.
#[derive(Debug)]
pub(super) enum TableWatch {
    Nft(NftWatch),
    Legacy(SizeWatch),
}

impl TableWatch {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// The kernel refuses, mostly for want of the capability `NET_ADMIN`.
    pub(super) fn start(backend: Backend, family: IpFamily) -> std::io::Result<Self> {
        match backend {
            Backend::Nft => NftWatch::start(family).map(Self::Nft),
            Backend::Legacy => SizeWatch::start(family).map(Self::Legacy),
        }
    }

    /// Waits for a change by another program.
    pub(super) async fn changed(&self) -> ForeignChange {
        match self {
            Self::Nft(watch) => watch.changed().await,
            Self::Legacy(watch) => watch.changed().await,
        }
    }

    /// A number that stays the same for as long as no program changes any rule.
    pub(super) fn generation(&self) -> Option<u32> {
        match self {
            Self::Nft(_) => generation().ok(),
            Self::Legacy(watch) => watch.generation(),
        }
    }

    /// Has to be called before each restore of ours.
    pub(super) fn before_restore(&self) {
        match self {
            Self::Nft(watch) => watch.before_restore(),
            Self::Legacy(watch) => watch.before_restore(),
        }
    }

    /// Has to be called after each restore of ours.
    pub(super) fn after_restore(&self, ours: &OwnRestore) {
        match self {
            Self::Nft(watch) => watch.after_restore(ours),
            Self::Legacy(watch) => watch.after_restore(ours),
        }
    }
}
