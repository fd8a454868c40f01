//! Listens for transactions of nftables that other programs make in the tables of one family.
//!
//! Our own restores are told apart by the process that made them: the notifications of a
//! transaction carry its port, which is the process id unless another socket has it. The port is
//! read in the pid namespace of the sender, as the id of a child process is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::net;

use nix::errno::Errno;
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::foreign_change::{ChangeSource, ForeignChange};
use super::netlink::{self, NLM_F_REQUEST, messages, receive, subscribe};
use super::nft_events::{NftEvent, NftEventKind, events, generation_of};
use super::nft_tables::NFNL_SUBSYS_NFTABLES;
use crate::net::IpFamily;
use crate::rules::Table;

const NFNLGRP_NFTABLES: u32 = 7;
const NFT_MSG_GETGEN: u16 = 16;

/// Memory of the kernel for notifications that were not received yet. The restore of 1,000 Services
/// makes 6 MB of them at once; of more, the generation tells whether other programs changed
/// anything meanwhile.
const BUFFER_BYTES: usize = 8 << 20;

/// The kernel puts messages together up to a page, and one rule can be larger.
const DATAGRAM_BYTES: usize = 64 << 10;

/// The subscription of one family.
#[derive(Debug)]
pub(super) struct NftWatch {
    family: IpFamily,
    /// The netlink socket. The runtime waits for any descriptor of this type, and knows no type for
    /// netlink that is safe to use.
    socket: UnixDatagram,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Transactions whose end was not received yet, by port.
    open: BTreeMap<u32, ForeignChange>,
    /// Changes of other programs that are to be reported.
    found: ForeignChange,
    /// Generation before the restore under way.
    before: Option<u32>,
}

/// A complete transaction.
#[derive(Debug)]
struct Transaction {
    port: u32,
    change: ForeignChange,
}

/// Transactions received at once.
#[derive(Debug, Default)]
struct Received {
    transactions: Vec<Transaction>,
    /// The buffer was full, so that others are missing.
    has_lost: bool,
}

impl NftWatch {
    /// Subscribes for one family.
    ///
    /// # Errors
    ///
    /// The kernel refuses, mostly for want of the capability `NET_ADMIN`.
    pub(super) fn start(family: IpFamily) -> std::io::Result<Self> {
        let socket = net::UnixDatagram::from(subscribe(NFNLGRP_NFTABLES, BUFFER_BYTES)?);
        Ok(Self {
            family,
            socket: UnixDatagram::from_std(socket)?,
            state: RefCell::default(),
        })
    }

    /// Waits until another program changes tables of the family. Cancel safe: a change stays until
    /// it is returned.
    pub(super) async fn changed(&self) -> ForeignChange {
        loop {
            if let Some(found) = self.take() {
                return found;
            }
            if self.socket.readable().await.is_err() {
                // The runtime is shutting down.
                std::future::pending::<()>().await;
            }
            // Everything is received, so that the runtime has to wait for the next notification.
            let received = self.socket.try_io(Interest::READABLE, || {
                let received = self.receive();
                self.state.borrow_mut().add_foreign(received);
                Err::<(), _>(std::io::ErrorKind::WouldBlock.into())
            });
            drop(received);
        }
    }

    fn take(&self) -> Option<ForeignChange> {
        let found = std::mem::take(&mut self.state.borrow_mut().found);
        (!found.is_empty()).then_some(found)
    }

    /// Takes in what other programs have done before a restore of ours begins.
    pub(super) fn before_restore(&self) {
        // Read before the notifications: a transaction between the two counts as foreign.
        let before = generation().ok();
        let received = self.receive();
        let mut state = self.state.borrow_mut();
        state.add_foreign(received);
        state.before = before;
    }

    /// Takes in what was done during a restore of ours.
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
        let others = |transaction: &Transaction| Some(transaction.port) != port;
        state.add_foreign(Received {
            transactions: received.transactions.into_iter().filter(others).collect(),
            has_lost: received.has_lost,
        });
    }

    /// Receives everything that waits.
    fn receive(&self) -> Received {
        let mut received = Received::default();
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
                // A datagram that does not fit is one that cannot be read.
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

impl State {
    /// Takes in one event; returns the transaction that it completes.
    fn transaction(&mut self, event: &NftEvent<'_>) -> Option<Transaction> {
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
                Some(Transaction { port, change })
            }
        }
    }

    /// Notes that these are changes of other programs. Transactions in other families and tables
    /// change nothing.
    fn add_foreign(&mut self, received: Received) {
        for Transaction { change, .. } in received.transactions {
            if !change.is_empty() {
                self.found.merge(change);
            }
        }
        if received.has_lost {
            let lost = ForeignChange::unknown(ChangeSource::LostEvents, Table::ALL);
            self.found.merge(lost);
        }
    }
}

/// A restore of ours that has ended.
#[derive(Debug, Clone)]
pub(super) struct OwnRestore {
    /// The process, if it was started.
    pub(super) process: Option<u32>,
    /// Tables of the payload: each is a transaction.
    pub(super) tables: Vec<Table>,
    pub(super) is_applied: bool,
    /// It waited for the lock: another program was changing rules when it began.
    pub(super) has_waited: bool,
}

impl OwnRestore {
    /// Returns the port that the restore used: that of the process or, where it was a script that
    /// started the program, the only port of such a program with transactions in this family, at
    /// most one for each table of the payload. A table that a payload leaves as it was has none.
    fn port(&self, transactions: &[Transaction]) -> Option<u32> {
        if transactions
            .iter()
            .any(|transaction| Some(transaction.port) == self.process)
        {
            return self.process;
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        let may_be_ours = |found: &&Transaction| found.is_by_iptables() && !found.change.is_empty();
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

impl Transaction {
    fn is_by_iptables(&self) -> bool {
        let names = ["iptables", "ip6tables", "xtables"];
        let mut programs = self.change.programs.iter();
        programs.any(|program| names.iter().any(|name| program.starts_with(name)))
    }
}

/// Returns the number of transactions that the kernel has committed, modulo 2^32.
pub(super) fn generation() -> Result<u32, Errno> {
    let mut request = Vec::new();
    let kind = NFNL_SUBSYS_NFTABLES | NFT_MSG_GETGEN;
    netlink::message(&mut request, kind, NLM_F_REQUEST, 0, |_| {});
    netlink::ask(&request, |datagram| {
        generation_of(&messages(datagram).next()??)
    })
}

#[cfg(test)]
#[path = "tests/nft_watch.rs"]
mod tests;
