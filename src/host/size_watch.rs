//! Reads every second the sizes of the tables of legacy iptables.
//!
//! Legacy iptables has no notifications, but the kernel tells the number of entries of a table in
//! microseconds, without the lock and without a process. A replacement by rules of the same size
//! stays unnoticed, as does a change between the end of a restore of ours and the reading after it:
//! a comparison of all rules finds these.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::foreign_change::{ChangeSource, ForeignChange};
use super::lock_watch::LockWatch;
use super::nft_watch::OwnRestore;
use super::table_size::{TableSize, open, table_size};
use crate::net::IpFamily;
use crate::rules::Table;

/// Interval of the looks. They take some microseconds each.
const EVERY: Duration = Duration::from_secs(1);

/// The tables of one family.
#[derive(Debug)]
pub(super) struct SizeWatch {
    family: IpFamily,
    socket: OwnedFd,
    /// `None`: the lock cannot be watched, so that nothing is known about changes that leave the
    /// sizes as they were.
    lock: Option<LockWatch>,
    state: RefCell<State>,
    /// Time of the next look.
    next: Cell<Option<Instant>>,
}

#[derive(Debug, Default)]
struct State {
    /// Sizes at the last look. Without an answer there is none, and another answer later counts as
    /// a change.
    sizes: [Option<TableSize>; Table::ALL.len()],
    /// Changes of other programs that are to be reported.
    found: ForeignChange,
}

impl SizeWatch {
    /// Begins with the sizes of now.
    ///
    /// # Errors
    ///
    /// The kernel refuses, mostly for want of the capability `NET_ADMIN`.
    pub(super) fn start(family: IpFamily) -> std::io::Result<Self> {
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

    /// Waits until another program changes the size of a table. Cancel safe: a change stays until
    /// it is returned.
    pub(super) async fn changed(&self) -> ForeignChange {
        loop {
            let found = std::mem::take(&mut self.state.borrow_mut().found);
            if !found.is_empty() {
                return found;
            }
            // Kept from one call to the next: a caller that is woken more often than every second
            // drops this future each time.
            let next = self.next.get().unwrap_or_else(Instant::now);
            sleep_until(next).await;
            self.next.set(Some(Instant::now() + EVERY));
            self.look();
        }
    }

    /// A number that stays the same for as long as no program opens the xtables lock.
    pub(super) fn generation(&self) -> Option<u32> {
        self.lock.as_ref()?.generation()
    }

    /// Takes in what other programs have done before a restore of ours begins.
    pub(super) fn before_restore(&self) {
        self.look();
    }

    /// Takes the sizes that a restore of ours has left in its tables. A restore that waited for the
    /// lock may have followed one of another program, whose changes are not in the sizes before.
    pub(super) fn after_restore(&self, ours: &OwnRestore) {
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
            if ours.has_waited {
                let tables = ours.tables.iter().copied();
                let unknown = ForeignChange::unknown(ChangeSource::Counters, tables);
                state.found.merge(unknown);
            }
        }
        self.look();
    }

    fn look(&self) {
        let sizes = self.sizes();
        let mut state = self.state.borrow_mut();
        let before = std::mem::replace(&mut state.sizes, sizes);
        for (table, (before, now)) in Table::ALL.into_iter().zip(before.iter().zip(sizes)) {
            if *before != now {
                state
                    .found
                    .merge(ForeignChange::unknown(ChangeSource::Counters, [table]));
            }
        }
    }

    fn sizes(&self) -> [Option<TableSize>; Table::ALL.len()] {
        Table::ALL.map(|table| table_size(&self.socket, self.family, table).ok().flatten())
    }
}

#[cfg(test)]
#[path = "tests/size_watch.rs"]
mod tests;
