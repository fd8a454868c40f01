//! Selects the form of a payload that costs `iptables-restore` the least, and measures its size.
//!
//! The figures are times of the iptables binaries 1.8.9 and the kernel.
//!
//! # Chain list of `iptables-nft`
//!
//! `iptables-nft-restore` keeps the names of the chains in its input, and of those that they jump
//! to, in a linked list that is sorted by name. For each line it searches the list from the front:
//! the time grows with the square of the payload. Two things shorten it:
//!
//! - A chain whose name comes before all others is put at the front without a search.
//! - The list begins anew with each transaction, so on nft the chains of Services are written in
//!   [blocks](NatBlocks).

use crate::render::live::LiveChains;
use crate::render::options::PartialRestore;
use crate::render::service::{RuleCounts, write_chain_declarations, write_line};
use crate::rules::{Backend, Table};

/// Size of one payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PayloadStats {
    /// Rules written, without deletions and entry jumps.
    pub rules: RuleCounts,
    /// Chains written or deleted; fixed chains and unused tree chains count in full payloads only,
    /// canaries and `KUBE-FIREWALL` never.
    pub chains: u64,
    /// Length of the text in bytes.
    pub bytes: u64,
}

/// Position of the declarations of Service chains in a full payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Declarations {
    /// Each before the rules of its chain.
    Inline,
    /// All before the first rule of a Service, in descending order of names.
    First,
}

/// Returns the extent in which a partial payload writes trees.
///
/// To add one Service to 10,000 in a tree, `iptables-nft-restore` takes 37 ms if its rule is
/// inserted into a leaf, and 48 ms if the leaf is emptied first: the kernel waits before it frees
/// rules. On legacy each restore writes the whole table anyway. There, `sync` notices changes by
/// other programs only if they change the size of the table; to write a leaf whole also undoes
/// those it did not notice.
pub(super) const fn tree_extent(backend: Backend, requested: PartialRestore) -> PartialRestore {
    match (backend, requested) {
        (Backend::Legacy, PartialRestore::ChangedChains) => PartialRestore::WholeTreeChains,
        _ => requested,
    }
}

/// Maximum endpoints of a full payload with inline declarations, on legacy, if the kernel has no
/// Service chain yet.
///
/// `iptables-legacy` also keeps chains sorted by name, and puts one whose name comes before all
/// others at the front without a search. CPU time for Services of five endpoints:
///
/// | Services | chains in the kernel | inline | declarations first |
/// |----------|----------------------|--------|--------------------|
/// | 10,000   | none                 | 1.7 s  | 1.3 s              |
/// | 20,000   | none                 | 6.8 s  | 3.6 s              |
/// | 20,000   | all                  | 3.3 s  | 6.9 s              |
///
/// With 3,000 Services there is hardly a difference.
const MAX_ENDPOINTS_INLINE: usize = 15_000;

/// Returns the position of the declarations in a full payload with this number of endpoints, for a
/// kernel with these chains. On nft they are cheap in any position: blocks have few chains.
pub(super) fn full_declarations(
    backend: Backend,
    live: &LiveChains,
    endpoints: usize,
) -> Declarations {
    match backend {
        Backend::Legacy if live.has_no_service_chain() && endpoints > MAX_ENDPOINTS_INLINE => {
            Declarations::First
        }
        Backend::Nft | Backend::Legacy => Declarations::Inline,
    }
}

/// Minimum of the chains of a block: those of 100 Services of five endpoints.
///
/// The restore program takes less memory for each block, and less time to search its list of
/// chains; but the kernel walks all chains that can be reached at the end of each block, so the
/// best size of a block grows with the root of the chains in the kernel.
///
/// CPU and peak memory of `iptables-nft-restore` 1.8.9 for a full payload of Services of five
/// endpoints; `-S` in the payload makes the program fetch all chains at once, and keep no list:
///
/// | Services | chains of a block      | no Service chain in the kernel | all in the kernel |
/// |----------|------------------------|--------------------------------|-------------------|
/// | 1,000    | all                    | 1.5 s, 29 MiB                  | 1.5 s, 27 MiB     |
/// | 1,000    | all, with `-S`         | 0.3 s, 28 MiB                  | 0.5 s, 37 MiB     |
/// | 1,000    | 300                    | 0.3 s, 14 MiB                  | 0.5 s, 14 MiB     |
/// | 1,000    | 600                    | 0.3 s, 14 MiB                  | 0.4 s, 14 MiB     |
/// | 1,000    | 2,100                  | 0.5 s, 14 MiB                  | 0.6 s, 14 MiB     |
/// | 10,000   | all, with `-S`         | 3.5 s, 256 MiB                 | 5.1 s, 345 MiB    |
/// | 10,000   | 600                    | 3.6 s, 14 MiB                  | 12.9 s, 13 MiB    |
/// | 10,000   | 1,200                  | 4.0 s, 14 MiB                  | 9.2 s, 14 MiB     |
/// | 10,000   | 2,100                  |                                | 7.8 s, 14 MiB     |
/// | 10,000   | 3,000                  |                                | 8.7 s, 17 MiB     |
///
/// The dispatch chains were flat; as trees, in a block of their own, they take 37 MiB at 10,000.
const MIN_BLOCK: usize = 600;

/// Chains of a block for the root of the number of Service chains in the kernel; see [`MIN_BLOCK`].
const BLOCK_PER_ROOT: usize = 8;

/// Blocks of the nat table: transactions that follow each other in one payload. On legacy there is
/// one, because each costs the whole table.
///
/// A chain is complete before a jump leads to it, and emptied after the last jump to it is gone, so
/// no packet meets an incomplete one between two blocks.
#[derive(Debug)]
pub(super) struct NatBlocks {
    /// Maximum number of chains of a block; one Service may have more.
    size: usize,
    /// Number of chains of the current block.
    chains: usize,
    has_ended_one: bool,
}

impl NatBlocks {
    /// Returns the first block, for a kernel with this number of Service chains.
    pub(super) const fn new(backend: Backend, live_chains: usize) -> Self {
        let size = match backend {
            Backend::Nft => {
                let size = BLOCK_PER_ROOT * live_chains.isqrt();
                if size < MIN_BLOCK { MIN_BLOCK } else { size }
            }
            Backend::Legacy => usize::MAX,
        };
        Self {
            size,
            chains: 0,
            has_ended_one: false,
        }
    }

    /// Counts the chains that come next, and begins another block if this one would have too many.
    pub(super) fn make_room(&mut self, buf: &mut Vec<u8>, chains: usize) {
        if self.chains > 0 && chains > self.size.saturating_sub(self.chains) {
            self.end(buf);
        }
        self.chains += chains;
    }

    /// Begins another block for the dispatch chains, if there are several: they must be written at
    /// once, and may be larger than a block.
    pub(super) fn begin_dispatch(&mut self, buf: &mut Vec<u8>) {
        if self.has_ended_one {
            self.end(buf);
        }
    }

    /// Writes the deletion of chains as [`write_deleted`] does.
    pub(super) fn delete(
        &mut self,
        buf: &mut Vec<u8>,
        chains: &[Box<str>],
        is_deleted: impl Fn(&str) -> bool,
    ) {
        for block in chains.chunks(self.size) {
            self.make_room(buf, block.len());
            write_emptied(buf, block);
        }
        for block in chains.chunks(self.size) {
            // Chains that fill no more than a block were counted when they were emptied in it.
            if chains.len() > self.size {
                self.make_room(buf, block.len());
            }
            write_removed(buf, block, &is_deleted);
        }
    }

    fn end(&mut self, buf: &mut Vec<u8>) {
        write_line(buf, &["COMMIT"]);
        write_line(buf, &["*", Table::Nat.as_str()]);
        self.chains = 0;
        self.has_ended_one = true;
    }
}

/// Writes the deletion of chains that no other chain references. They reference each other, so all
/// are emptied before the first is deleted. Those that are not to be deleted stay empty.
pub(super) fn write_deleted(
    buf: &mut Vec<u8>,
    chains: &[Box<str>],
    is_deleted: impl Fn(&str) -> bool,
) {
    write_emptied(buf, chains);
    write_removed(buf, chains, &is_deleted);
}

fn write_emptied(buf: &mut Vec<u8>, chains: &[Box<str>]) {
    for chain in chains {
        write_chain_declarations(buf, &[chain]);
    }
}

fn write_removed(buf: &mut Vec<u8>, chains: &[Box<str>], is_deleted: &impl Fn(&str) -> bool) {
    for chain in chains.iter().filter(|chain| is_deleted(chain)) {
        write_line(buf, &["-X ", chain]);
    }
}
