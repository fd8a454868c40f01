//! Watches for nftables transactions of other programs in the tables of one family.
//!
//! Our own restores are recognized by their process: the notifications of a transaction carry its
//! port, which is the process id unless another socket has it. The port is read in the pid
//! namespace of the sender, as the id of a child process is, so a program in another container can
//! have the same one. They also carry the id in the initial pid namespace, which is unique and
//! tells two such programs apart; it is the id of our child only where this process is in that
//! namespace.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nix::errno::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;

use super::super::netlink::nftables::{NftEvent, NftEventKind, events, generation};
use super::super::netlink::socket::{receive, subscribe};
use super::interface::{ChainRemoval, ChangeSource, ForeignChange};
use crate::linux::{NetlinkProtocol, readable};
use crate::net::{IpFamily, Locked};
use crate::rules::Table;

const NFNLGRP_NFTABLES: u32 = 7;

/// Size of the kernel's buffer for notifications. The restore of 1,000 Services makes 6 MB of them
/// at once. If the buffer overflows, the generation shows whether other programs changed anything
/// meanwhile.
const BUFFER_BYTES: usize = 8 << 20;

/// The kernel packs messages into datagrams of up to a page, and one rule can be larger.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Maximum chains that one transaction is known to have deleted. They are only reported.
const MOST_DELETED: usize = 1000;

/// Transactions of our own restores, of both families, which run in parallel: the kernel has one
/// generation for all. They tell whether other programs changed anything while notifications were
/// lost.
#[derive(Debug, Default)]
pub struct OwnTransactions {
    restores: Locked<OwnRestores>,
    /// Notified when no restore runs anymore.
    idle: Notify,
}

#[derive(Debug, Default)]
struct OwnRestores {
    running: u32,
    /// Number of transactions of the restores that ended.
    finished: u32,
    /// State before the first of the restores that run.
    before: Option<Mark>,
}

/// Generation of the ruleset, and the number of our transactions in it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    generation: u32,
    ours: u32,
}

impl OwnTransactions {
    fn begin(self: &Arc<Self>) -> RunningRestore {
        let mut restores = self.restores.lock();
        restores.before = restores.mark();
        restores.running += 1;
        RunningRestore(Arc::clone(self))
    }
}

impl OwnRestores {
    /// Returns the last state in which no restore of ours ran; `None` if the generation cannot be
    /// read.
    fn mark(&self) -> Option<Mark> {
        if self.running > 0 {
            return self.before;
        }
        let generation = generation().ok()?;
        let ours = self.finished;
        Some(Mark { generation, ours })
    }
}

impl Mark {
    /// Reports whether all transactions until `now` are ours.
    const fn only_ours_until(self, now: Self) -> bool {
        now.generation.wrapping_sub(self.generation) == now.ours.wrapping_sub(self.ours)
    }
}

/// Restore of ours that runs until this is dropped. If it did not [end](Self::end), its
/// transactions count as foreign.
#[derive(Debug)]
pub(super) struct RunningRestore(Arc<OwnTransactions>);

impl RunningRestore {
    /// Notes the end of a restore of these tables, each of which is one transaction.
    fn end(self, tables: &[Table]) {
        let ours = u32::try_from(tables.len()).unwrap_or(u32::MAX);
        let mut restores = self.0.restores.lock();
        restores.finished = restores.finished.wrapping_add(ours);
    }
}

impl Drop for RunningRestore {
    fn drop(&mut self) {
        let mut restores = self.0.restores.lock();
        restores.running -= 1;
        if restores.running == 0 {
            self.0.idle.notify_waiters();
        }
    }
}

/// Subscription to the notifications of one family.
#[derive(Debug)]
pub(super) struct NftWatch {
    family: IpFamily,
    own: Arc<OwnTransactions>,
    pid_namespace: PidNamespace,
    socket: Receiver,
    state: RefCell<NftWatchState>,
}

#[derive(Debug, Default)]
struct NftWatchState {
    /// Transactions whose end was not received yet, by port.
    open: BTreeMap<u32, OpenTransaction>,
    /// Changes by other programs that were not reported yet.
    unreported: ForeignChange,
    /// State up to which all notifications were received.
    seen: Option<Mark>,
    /// Notifications after [`Self::seen`] were lost.
    has_lost: bool,
}

/// Transaction whose end was not received yet.
#[derive(Debug, Default)]
struct OpenTransaction {
    change: ForeignChange,
    /// Chains that it has deleted and not added again, at most [`MOST_DELETED`].
    deleted: BTreeSet<(Table, Box<str>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PidNamespace {
    Initial,
    /// That of a container, or an unknown one.
    Other,
}

impl PidNamespace {
    /// Name of the initial one.
    ///
    /// Linux: include/linux/proc_ns.h, `PROC_PID_INIT_INO`
    const INITIAL: &str = "pid:[4026531836]";

    fn current() -> Self {
        match std::fs::read_link("/proc/self/ns/pid") {
            Ok(name) if name.as_os_str() == Self::INITIAL => Self::Initial,
            _ => Self::Other,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NftSender {
    port: u32,
    /// Process id in the initial pid namespace, if the kernel reports it.
    process: Option<u32>,
}

impl NftSender {
    /// Reports whether it may be our process with this id.
    fn may_be(self, id: u32, namespace: PidNamespace) -> bool {
        match (namespace, self.process) {
            (PidNamespace::Initial, Some(process)) => process == id,
            (PidNamespace::Initial | PidNamespace::Other, _) => self.port == id,
        }
    }

    /// Reports whether the kernel chose the port, because another socket had that of the process.
    ///
    /// Linux: net/netlink/af_netlink.c, `netlink_autobind`
    const fn has_chosen_port(self) -> bool {
        self.port > i32::MAX.cast_unsigned()
    }
}

#[derive(Debug)]
struct NftTransaction {
    sender: NftSender,
    change: ForeignChange,
}

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
    pub(super) fn start(family: IpFamily, own: &Arc<OwnTransactions>) -> std::io::Result<Self> {
        let seen = own.restores.lock().mark();
        let protocol = NetlinkProtocol::Netfilter;
        let socket = subscribe(protocol, NFNLGRP_NFTABLES, BUFFER_BYTES)?;
        Ok(Self {
            family,
            own: Arc::clone(own),
            pid_namespace: PidNamespace::current(),
            socket: Receiver::from_owned_fd_unchecked(socket)?,
            state: RefCell::new(NftWatchState {
                seen,
                ..NftWatchState::default()
            }),
        })
    }

    /// Waits until another program changes tables of the family. Cancel safe: a change is kept
    /// until it is returned.
    pub(super) async fn changed(&self) -> ForeignChange {
        loop {
            let idle = self.own.idle.notified();
            self.judge_loss();
            if let Some(change) = self.take() {
                return change;
            }
            if self.state.borrow().has_lost {
                idle.await;
                continue;
            }
            readable(&self.socket).await;
            self.receive_foreign();
        }
    }

    fn take(&self) -> Option<ForeignChange> {
        let change = std::mem::take(&mut self.state.borrow_mut().unreported);
        (!change.is_empty()).then_some(change)
    }

    /// Notes the changes that other programs made before a restore of ours.
    pub(super) fn before_restore(&self) -> RunningRestore {
        self.receive_foreign();
        self.judge_loss();
        self.own.begin()
    }

    /// Notes the changes that other programs made during a restore of ours.
    pub(super) fn after_restore(&self, running: RunningRestore, ours: &OwnRestore) {
        running.end(&ours.tables);
        let mut received = self.receive();
        let sender = ours.sender(&received.transactions, self.pid_namespace);
        received
            .transactions
            .retain(|transaction| Some(transaction.sender) != sender);
        self.state.borrow_mut().add_foreign(received);
        self.judge_loss();
    }

    /// Receives all pending notifications while this family has no restore.
    fn receive_foreign(&self) {
        // Read before the notifications: a transaction in between is not in it.
        let seen = self.own.restores.lock().mark();
        let received = self.receive();
        let mut state = self.state.borrow_mut();
        state.add_foreign(received);
        if !state.has_lost {
            state.seen = seen;
        }
    }

    /// If notifications were lost, and no restore of ours runs, reports a change by other programs,
    /// unless all transactions since then were ours.
    fn judge_loss(&self) {
        let mut state = self.state.borrow_mut();
        let restores = self.own.restores.lock();
        if !state.has_lost || restores.running > 0 {
            return;
        }
        state.has_lost = false;
        let before = std::mem::replace(&mut state.seen, restores.mark());
        let is_ours_alone = match (before, state.seen) {
            (Some(before), Some(now)) => before.only_ours_until(now),
            _ => false,
        };
        if !is_ours_alone {
            let lost = ForeignChange::unknown(ChangeSource::LostEvents, Table::ALL);
            state.unreported.merge(&lost);
        }
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
                let open = self.open.entry(port).or_default();
                open.change.touch(table, chain);
                if !open.deleted.is_empty() {
                    open.deleted.remove(&(table, chain.into()));
                }
                None
            }
            NftEventKind::DeletedChain(table, chain) => {
                let open = self.open.entry(port).or_default();
                open.change.touch(table, chain);
                if open.deleted.len() < MOST_DELETED {
                    open.deleted.insert((table, chain.into()));
                }
                None
            }
            NftEventKind::Table(table) => {
                let open = self.open.entry(port).or_default();
                open.change.touch_table(table);
                None
            }
            NftEventKind::Generation { program, process } => {
                let open = self.open.remove(&port).unwrap_or_default();
                let OpenTransaction {
                    mut change,
                    deleted: chains,
                } = open;
                change.by(program);
                if !chains.is_empty() {
                    let program = program.to_owned();
                    change.removals.push(ChainRemoval { program, chains });
                }
                let sender = NftSender { port, process };
                Some(NftTransaction { sender, change })
            }
        }
    }

    /// Notes changes by other programs. Transactions in other families and tables are empty.
    fn add_foreign(&mut self, received: ReceivedTransactions) {
        for NftTransaction { change, .. } in received.transactions {
            if !change.is_empty() {
                self.unreported.merge(&change);
            }
        }
        self.has_lost |= received.has_lost;
    }
}

#[derive(Debug, Clone)]
pub(super) struct OwnRestore {
    /// Process id, if the program was started.
    pub(super) process: Option<u32>,
    /// Tables of the payload; each is one transaction.
    pub(super) tables: Vec<Table>,
    pub(super) is_applied: bool,
}

impl OwnRestore {
    /// Returns the sender that the restore is. That is the one with the process id or, where a
    /// script started the program, the only iptables program with transactions in this family. It
    /// has at most one for each table of the payload: a table that the payload leaves unchanged has
    /// none. `None` if several may be it: a superfluous check does no harm.
    fn sender(
        &self,
        transactions: &[NftTransaction],
        namespace: PidNamespace,
    ) -> Option<NftSender> {
        let mut counts: BTreeMap<NftSender, usize> = BTreeMap::new();
        let mut by_iptables = BTreeSet::new();
        for transaction in transactions.iter().filter(|one| !one.change.is_empty()) {
            *counts.entry(transaction.sender).or_default() += 1;
            if transaction.is_by_iptables() {
                by_iptables.insert(transaction.sender);
            }
        }
        counts.retain(|_, count| *count <= self.tables.len());
        let has_id =
            |sender: &NftSender| self.process.is_some_and(|id| sender.may_be(id, namespace));
        let is_script = self.is_applied && !counts.keys().any(has_id);
        // In a container, a sender with our id may be a program in another one that opened its
        // socket first; then the kernel has chosen another port for ours.
        let mut candidates = counts.into_keys().filter(|sender| {
            let may_have_given_way = namespace == PidNamespace::Other && sender.has_chosen_port();
            has_id(sender) || (by_iptables.contains(sender) && (is_script || may_have_given_way))
        });
        let sender = candidates.next()?;
        candidates.next().is_none().then_some(sender)
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
