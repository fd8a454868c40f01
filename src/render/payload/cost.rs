//! Selects the form of a payload that costs `iptables-restore` the least.
//!
//! The figures are times of the iptables binaries and the kernel; `cargo bench --bench emission`
//! measures them.
//!
//! # Chain list of `iptables-nft`
//!
//! `iptables-nft-restore` keeps the names of the chains in its input, and of those that they jump
//! to, in a linked list that is sorted by name. For each line it searches the list from the front:
//! the time grows with the square of the payload. Two things shorten it:
//!
//! - A chain whose name comes before all others is put at the front without a search. So chains
//!   are best declared in descending order of names, before the first rule.
//! - The list says which chains to fetch from the kernel. `-S`, a list command, which the program
//!   accepts in its input, makes it fetch all chains of the table at once, and no list is kept.
//!   Its output is discarded. It fails if the table has an unprintable rule.

use crate::render::applied::LiveChains;
use crate::render::options::PartialRestore;
use crate::rules::Backend;

/// Position of the declarations of Service chains in a payload.
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

/// Maximum chains of a partial payload with inline declarations, on nft.
///
/// Declarations come first in descending order of names, to shorten searches of the chain list
/// (see above). In a cluster of 10,000 Services, a change of all endpoints of some Services takes:
///
/// | changed Services | chains | inline   | declarations first |
/// |------------------|--------|----------|--------------------|
/// | 500              | 5,500  | 431 ms   | 367 ms             |
/// | 1,000            | 11,000 | 1,359 ms | 763 ms             |
/// | 2,000            | 22,000 | 7,828 ms | 2,112 ms           |
///
/// With fewer than 200 Services, about 2,000 chains, there is no difference, and a declaration
/// next to its rules is easier to read.
const MAX_INLINE_DECLARATIONS: usize = 2_000;

/// Returns the position of the declarations in a partial payload with this number of chains.
pub(super) const fn partial_declarations(backend: Backend, chains: usize) -> Declarations {
    match backend {
        Backend::Nft if chains > MAX_INLINE_DECLARATIONS => Declarations::First,
        Backend::Nft | Backend::Legacy => Declarations::Inline,
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
/// kernel with these chains. On nft they are cheap in any position: nat begins with `-S`, or it is
/// written in blocks of few chains. With neither, because nat is small and cannot be printed, the
/// search is short.
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

/// Sizes of a partial payload and of the nat table.
#[derive(Debug, Clone, Copy)]
pub(super) struct NatSizes {
    /// Number of written and deleted chains in the payload, of Services and of trees.
    pub(super) chains: u64,
    /// Number of rules in the payload.
    pub(super) rules: u64,
    /// Number of rules of the proxy in nat before the restore, as the applied state counts them.
    pub(super) applied_rules: u64,
}

impl NatSizes {
    /// Reports whether the nat part of a payload should begin with `-S`: whether searching the
    /// chain list (see above) would take longer than fetching all chains.
    ///
    /// The time of the search grows with the square of the payload, that of `-S` with the table:
    /// 8.5 us for each rule. With declarations first, both take the same time if 2,000 of 10,000
    /// Services change, or 700 of 1,000.
    pub(super) const fn is_worth_listing(self, backend: Backend) -> bool {
        match backend {
            Backend::Nft => {
                self.chains * (self.chains + self.rules)
                    > SEARCH_STEPS_PER_READ_RULE * self.applied_rules
            }
            Backend::Legacy => false,
        }
    }
}

/// Number of search steps that take as long as `-S` takes for one rule. The steps of a payload are
/// estimated as its lines (chains and rules) times its chains, as if each line passed all of them.
const SEARCH_STEPS_PER_READ_RULE: u64 = 7_500;

/// Maximum endpoints of a full payload with nat in one transaction, on nft. Each has a chain, and
/// the restore program takes about 5 KiB for it: 25 MiB.
const MAX_ENDPOINTS_IN_ONE_BLOCK: usize = 5_000;

/// Chains of a block, if the kernel has no Service chain yet: 100 Services of five endpoints.
///
/// 10,000 such Services with iptables 1.8.9, CPU and peak memory of `iptables-nft-restore`:
///
/// | chains of a block | no Service chain in the kernel | all in the kernel |
/// |-------------------|--------------------------------|-------------------|
/// | all, with `-S`    | 3.5 s, 256 MiB                 | 5.1 s, 345 MiB    |
/// | 600               | 3.6 s, 14 MiB                  | 12.9 s, 13 MiB    |
/// | 1,200             | 4.0 s, 14 MiB                  | 9.2 s, 14 MiB     |
/// | 2,100             |                                | 7.8 s, 14 MiB     |
/// | 3,000             |                                | 8.7 s, 17 MiB     |
///
/// The dispatch chains were flat; as trees they take 37 MiB.
const BLOCK_ON_EMPTY_TABLE: usize = 600;

/// Chains of a block, if the kernel has Service chains: after each block it walks all chains that
/// can be reached, so there are fewer blocks. Fewer still would cost more: see the chain list.
const BLOCK_ON_FULL_TABLE: usize = 2_100;

/// Returns the number of chains of a block of nat in a full payload with this number of endpoints,
/// for a kernel with these chains; `None` if nat is best written in one transaction. On legacy each
/// transaction costs the whole table.
pub(super) fn nat_block(backend: Backend, live: &LiveChains, endpoints: usize) -> Option<usize> {
    match backend {
        Backend::Nft if endpoints > MAX_ENDPOINTS_IN_ONE_BLOCK => {
            Some(if live.has_no_service_chain() {
                BLOCK_ON_EMPTY_TABLE
            } else {
                BLOCK_ON_FULL_TABLE
            })
        }
        Backend::Nft | Backend::Legacy => None,
    }
}
