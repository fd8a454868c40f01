//! Watches for nftables transactions of other programs in the tables of one family.
//!
//! Our own restores are recognized by their process: the notifications of a transaction carry its
//! port, which is the process id unless another socket has it. The port is read in the pid
//! namespace of the sender, as the id of a child process is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::net;

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::super::netlink::nftables::{NftEvent, NftEventKind, events, generation};
use super::super::netlink::socket::{receive, subscribe};
use super::interface::{ChangeSource, ForeignChange};
use crate::net::IpFamily;
use crate::rules::Table;

const NFNLGRP_NFTABLES: u32 = 7;

/// Size of the kernel's buffer for notifications. The restore of 1,000 Services makes 6 MB of them
/// at once. If the buffer overflows, the generation shows whether other programs changed anything
/// meanwhile.
const BUFFER_BYTES: usize = 8 << 20;

/// The kernel packs messages into datagrams of up to a page, and one rule can be larger.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Subscription to the notifications of one family.
#[derive(Debug)]
pub(super) struct NftWatch {
    family: IpFamily,
    /// The netlink socket. Tokio has no type for netlink; this one waits for any descriptor without
    /// unsafe code.
    socket: UnixDatagram,
    state: RefCell<NftWatchState>,
}

#[derive(Debug, Default)]
struct NftWatchState {
    /// Transactions whose end was not received yet, by port.
    open: BTreeMap<u32, ForeignChange>,
    /// Changes by other programs that were not reported yet.
    unreported: ForeignChange,
    /// Generation before the current restore.
    before: Option<u32>,
}

/// Complete transaction.
#[derive(Debug)]
struct NftTransaction {
    port: u32,
    change: ForeignChange,
}

/// Transactions received at once.
#[derive(Debug, Default)]
struct ReceivedTransactions {
    transactions: Vec<NftTransaction>,
    /// The buffer overflowed, so that transactions are missing.
    has_lost: bool,
}

impl NftWatch {
    /// Subscribes to the notifications of one family.
    ///
    /// # Errors
    ///
    /// The kernel denies it, usually because the capability `NET_ADMIN` is missing.
    pub(super) fn start(family: IpFamily) -> std::io::Result<Self> {
        let protocol = SockProtocol::NetlinkNetFilter;
        let socket = subscribe(protocol, NFNLGRP_NFTABLES, BUFFER_BYTES)?;
        let socket = net::UnixDatagram::from(socket);
        Ok(Self {
            family,
            socket: UnixDatagram::from_std(socket)?,
            state: RefCell::default(),
        })
    }

    /// Waits until another program changes tables of the family. Cancel safe: a change is kept
    /// until it is returned.
    pub(super) async fn changed(&self) -> ForeignChange {
        loop {
            if let Some(change) = self.take() {
                return change;
            }
            if self.socket.readable().await.is_err() {
                // The runtime is shutting down.
                std::future::pending::<()>().await;
            }
            // Receives everything, so that the runtime waits for the next notification.
            let received = self.socket.try_io(Interest::READABLE, || {
                let received = self.receive();
                self.state.borrow_mut().add_foreign(received);
                Err::<(), _>(std::io::ErrorKind::WouldBlock.into())
            });
            drop(received);
        }
    }

    fn take(&self) -> Option<ForeignChange> {
        let change = std::mem::take(&mut self.state.borrow_mut().unreported);
        (!change.is_empty()).then_some(change)
    }

    /// Notes the changes that other programs made before a restore of ours.
    pub(super) fn before_restore(&self) {
        // Read before the notifications: a transaction in between counts as foreign.
        let before = generation().ok();
        let received = self.receive();
        let mut state = self.state.borrow_mut();
        state.add_foreign(received);
        state.before = before;
    }

    /// Notes the changes that other programs made during a restore of ours.
    pub(super) fn after_restore(&self, ours: &OwnRestore) {
        let received = self.receive();
        let mut state = self.state.borrow_mut();
        let before = state.before.take();
        let is_ours_alone = || {
            let steps = generation().ok()?.wrapping_sub(before?);
            Some(u32::try_from(ours.tables.len()) == Ok(steps))
        };
        if received.has_lost && is_ours_alone() == Some(true) {
            state.open.clear();
            return;
        }
        let port = ours.port(&received.transactions);
        let is_foreign = |transaction: &NftTransaction| Some(transaction.port) != port;
        state.add_foreign(ReceivedTransactions {
            transactions: received
                .transactions
                .into_iter()
                .filter(is_foreign)
                .collect(),
            has_lost: received.has_lost,
        });
    }

    /// Receives all pending notifications.
    fn receive(&self) -> ReceivedTransactions {
        let mut received = ReceivedTransactions::default();
        let mut datagram = vec![0; DATAGRAM_BYTES];
        let mut state = self.state.borrow_mut();
        loop {
            match receive(&self.socket, &mut datagram) {
                Ok(bytes) => {
                    for event in events(self.family, bytes) {
                        received.transactions.extend(state.transaction(&event));
                    }
                }
                Err(Errno::EAGAIN) => return received,
                // A datagram that does not fit is lost as well.
                Err(Errno::ENOBUFS | Errno::EMSGSIZE) => {
                    received.has_lost = true;
                    state.open.clear();
                }
                Err(_) => {
                    received.has_lost = true;
                    return received;
                }
            }
        }
    }
}

impl NftWatchState {
    /// Adds an event to its transaction; returns the transaction if it is complete.
    fn transaction(&mut self, event: &NftEvent<'_>) -> Option<NftTransaction> {
        let port = event.port;
        match event.kind {
            NftEventKind::Chain(table, chain) => {
                self.open.entry(port).or_default().touch(table, chain);
                None
            }
            NftEventKind::Table(table) => {
                self.open.entry(port).or_default().touch_table(table);
                None
            }
            NftEventKind::Generation { program } => {
                let mut change = self.open.remove(&port).unwrap_or_default();
                change.by(program);
                Some(NftTransaction { port, change })
            }
        }
    }

    /// Notes changes by other programs. Transactions in other families and tables are empty.
    fn add_foreign(&mut self, received: ReceivedTransactions) {
        for NftTransaction { change, .. } in received.transactions {
            if !change.is_empty() {
                self.unreported.merge(change);
            }
        }
        if received.has_lost {
            let lost = ForeignChange::unknown(ChangeSource::LostEvents, Table::ALL);
            self.unreported.merge(lost);
        }
    }
}

/// Finished restore of ours.
#[derive(Debug, Clone)]
pub(super) struct OwnRestore {
    /// Process id, if the program was started.
    pub(super) process: Option<u32>,
    /// Tables of the payload; each is one transaction.
    pub(super) tables: Vec<Table>,
    pub(super) is_applied: bool,
    /// The restore waited for the lock: another program was changing rules when it started.
    pub(super) has_waited: bool,
}

impl OwnRestore {
    /// Returns the port that the restore used. That is the process id or, where a script started
    /// the program, the only port of an iptables program with transactions in this family, at most
    /// one for each table of the payload. A table that the payload leaves unchanged has no
    /// transaction.
    fn port(&self, transactions: &[NftTransaction]) -> Option<u32> {
        if transactions
            .iter()
            .any(|transaction| Some(transaction.port) == self.process)
        {
            return self.process;
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        let may_be_ours =
            |found: &&NftTransaction| found.is_by_iptables() && !found.change.is_empty();
        for transaction in transactions.iter().filter(may_be_ours) {
            *counts.entry(transaction.port).or_default() += 1;
        }
        let is_like_ours =
            |(_, count): &(u32, usize)| self.is_applied && *count <= self.tables.len();
        let mut candidates = counts.into_iter().filter(is_like_ours);
        let (port, _) = candidates.next()?;
        candidates.next().is_none().then_some(port)
    }
}

impl NftTransaction {
    fn is_by_iptables(&self) -> bool {
        let names = ["iptables", "ip6tables", "xtables"];
        let mut programs = self.change.programs.iter();
        programs.any(|program| names.iter().any(|name| program.starts_with(name)))
    }
}

#[cfg(test)]
#[path = "tests/nft_watch.rs"]
mod tests;
