//! Watches the tables of one family for changes by other programs: by notifications of nftables, or
//! by the sizes of legacy tables.
//!
//! Legacy iptables has no notifications, but the kernel reports the number of entries of a table in
//! microseconds, without the lock and without a process. A program that waited for the lock changes
//! its table as soon as a restore of ours releases it, before the size that we left is read: the
//! entries that are not ours show that. A replacement by rules of the same size is missed: a
//! comparison of all rules finds it.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::super::netlink::nftables::generation;
use super::interface::{ChangeSource, ForeignChange};
use super::lock::{LockWatch, UnsharedLock};
use super::nft_watch::{NftWatch, OwnRestore, OwnTransactions, RunningRestore};
use super::table_size::{TableSize, open, table_size};
use crate::net::IpFamily;
use crate::rules::{Backend, Table};

/// Interval of checks of the sizes, which take some microseconds each.
const EVERY: Duration = Duration::from_secs(1);

/// Watch of the tables of one family and backend.
#[derive(Debug)]
pub(super) enum TableWatch {
    Nft(NftWatch),
    Legacy(SizeWatch),
}

impl TableWatch {
    /// Starts to watch.
    ///
    /// # Errors
    ///
    /// The kernel denies it, usually because the capability `NET_ADMIN` is missing.
    pub(super) fn start(
        backend: Backend,
        family: IpFamily,
        own: &Arc<OwnTransactions>,
    ) -> std::io::Result<Self> {
        match backend {
            Backend::Nft => NftWatch::start(family, own).map(Self::Nft),
            Backend::Legacy => SizeWatch::start(family).map(Self::Legacy),
        }
    }

    pub(super) async fn changed(&self) -> ForeignChange {
        match self {
            Self::Nft(watch) => watch.changed().await,
            Self::Legacy(watch) => watch.changed().await,
        }
    }

    /// Returns a number that stays the same while no program changes any rule.
    pub(super) fn generation(&self) -> Option<u32> {
        match self {
            Self::Nft(_) => generation().ok(),
            Self::Legacy(watch) => watch.lock.as_ref()?.generation(),
        }
    }

    /// Waits until programs have released the xtables lock, and returns the time of that: any table
    /// may have changed by then, and [`changed`](Self::changed) does not return these changes.
    /// Never returns on nft, and if the lock cannot be watched.
    pub(super) async fn lock_released(&self) -> Instant {
        match self {
            Self::Legacy(
                watch @ SizeWatch {
                    lock: Some(lock), ..
                },
            ) => {
                let released = lock.released().await;
                watch.check();
                watch.state.borrow_mut().unreported = ForeignChange::default();
                released
            }
            Self::Nft(_) | Self::Legacy(_) => std::future::pending().await,
        }
    }

    /// Waits until there is evidence that programs change rules without the xtables lock that is
    /// watched, and returns it with the path of the lock. Never returns on nft, which has no lock.
    pub(super) async fn unshared_lock(&self) -> (&Path, UnsharedLock) {
        match self {
            Self::Legacy(SizeWatch {
                lock: Some(lock), ..
            }) => (lock.path(), lock.unshared().await),
            Self::Nft(_) | Self::Legacy(_) => std::future::pending().await,
        }
    }

    /// Has to be called before each restore of ours. On nft, returns what has to be passed on after
    /// it.
    pub(super) fn before_restore(&self) -> Option<RunningRestore> {
        match self {
            Self::Nft(watch) => Some(watch.before_restore()),
            Self::Legacy(watch) => {
                watch.check();
                None
            }
        }
    }

    /// Has to be called after each sync, with the entries of ours in each table, where known.
    pub(super) fn synced(&self, ours: &[(Table, u64)]) {
        if let Self::Legacy(watch) = self {
            watch.synced(ours);
        }
    }

    /// Has to be called after each restore of ours.
    pub(super) fn after_restore(&self, running: Option<RunningRestore>, ours: &OwnRestore) {
        match (self, running) {
            (Self::Nft(watch), Some(running)) => watch.after_restore(running, ours),
            (Self::Nft(_), None) => {}
            (Self::Legacy(watch), _) => watch.after_restore(ours),
        }
    }
}

/// Watch of the sizes of the legacy tables of one family.
#[derive(Debug)]
pub(super) struct SizeWatch {
    family: IpFamily,
    socket: OwnedFd,
    /// `None`: the lock cannot be watched, so that changes that keep the sizes are unknown.
    lock: Option<LockWatch>,
    state: RefCell<TableWatchState>,
    next: Cell<Option<Instant>>,
}

#[derive(Debug, Default)]
struct TableWatchState {
    /// Sizes at the last check; `None` for an unreadable table. A table that becomes readable or
    /// unreadable counts as changed.
    sizes: [Option<TableSize>; Table::ALL.len()],
    /// Number of entries that are not ours, after the last sync. `None` if it is unknown, or if
    /// another program has changed the table since.
    others: [Option<u32>; Table::ALL.len()],
    /// Changes by other programs that were not reported yet.
    unreported: ForeignChange,
}

impl SizeWatch {
    /// Starts with the current sizes.
    ///
    /// # Errors
    ///
    /// The kernel denies it, usually because the capability `NET_ADMIN` is missing.
    fn start(family: IpFamily) -> std::io::Result<Self> {
        let socket = open(family)?;
        table_size(&socket, family, Table::Nat)?;
        let watch = Self {
            family,
            socket,
            lock: LockWatch::start().ok(),
            state: RefCell::default(),
            next: Cell::new(None),
        };
        watch.state.borrow_mut().sizes = watch.sizes();
        Ok(watch)
    }

    /// Waits until another program changes the size of a table. Cancel safe: a change is kept until
    /// it is returned.
    async fn changed(&self) -> ForeignChange {
        loop {
            let change = std::mem::take(&mut self.state.borrow_mut().unreported);
            if !change.is_empty() {
                return change;
            }
            // Kept between calls: a caller that is woken more than once per second drops this
            // future each time.
            let next = self.next.get().unwrap_or_else(Instant::now);
            sleep_until(next).await;
            self.next.set(Some(Instant::now() + EVERY));
            self.check();
        }
    }

    /// Takes the sizes that a restore of ours has left in its tables as known.
    fn after_restore(&self, ours: &OwnRestore) {
        if ours.is_applied {
            let sizes = self.sizes();
            let mut state = self.state.borrow_mut();
            for (table, (known, now)) in Table::ALL
                .into_iter()
                .zip(state.sizes.iter_mut().zip(sizes))
            {
                if ours.tables.contains(&table) {
                    *known = now;
                }
            }
        }
        self.check();
    }

    /// Compares the number of entries that are not ours with that after the last sync, and notes
    /// the tables that differ.
    fn synced(&self, ours: &[(Table, u64)]) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let known = Table::ALL.into_iter().zip(&mut state.others);
        for ((table, before), size) in known.zip(state.sizes) {
            let ours = ours.iter().find(|(of, _)| *of == table);
            let now = ours.zip(size).and_then(|((_, ours), size)| {
                // Fewer than ours: rules are missing, which a comparison finds.
                size.entries.checked_sub(u32::try_from(*ours).ok()?)
            });
            *before = match (*before, now) {
                (Some(before), Some(now)) if before != now => {
                    let change = ForeignChange::unknown(ChangeSource::TableSizes, [table]);
                    state.unreported.merge(&change);
                    // Known again after the next sync, which repairs the table if it has to.
                    None
                }
                _ => now,
            };
        }
    }

    /// Compares the sizes with those of the last check, and notes the tables that differ. Checks
    /// whether the lock is shared.
    fn check(&self) {
        let sizes = self.sizes();
        let mut state = self.state.borrow_mut();
        let before = std::mem::replace(&mut state.sizes, sizes);
        if let Some(lock) = &self.lock {
            // A table also appears when a program reads it, which takes no lock.
            let is_changed = |(before, now): (Option<TableSize>, Option<TableSize>)| {
                before.zip(now).is_some_and(|(before, now)| before != now)
            };
            if before.into_iter().zip(sizes).any(is_changed) {
                lock.rules_changed();
            } else {
                lock.update();
            }
        }
        let state = &mut *state;
        let known = Table::ALL.into_iter().zip(&mut state.others);
        for ((table, others), (before, now)) in known.zip(before.into_iter().zip(sizes)) {
            if before != now {
                let change = ForeignChange::unknown(ChangeSource::TableSizes, [table]);
                state.unreported.merge(&change);
                *others = None;
            }
        }
    }

    fn sizes(&self) -> [Option<TableSize>; Table::ALL.len()] {
        Table::ALL.map(|table| table_size(&self.socket, self.family, table).ok().flatten())
    }
}
