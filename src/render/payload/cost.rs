//! Selects the form of a payload that costs `iptables-restore` the least.
//!
//! The figures are times of the iptables binaries and the kernel; `cargo bench --bench emission`
//! measures them.

use crate::rules::Backend;

/// Position of the chain declarations in a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Declarations {
    /// Each before the rules of its chain.
    Inline,
    /// All before the first rule, in descending order of names.
    First,
}

/// Order of the rules in a dispatch chain that is written whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DispatchOrder {
    /// By Service.
    ByService,
    /// By the chains that they jump to, in descending order of names.
    ByTarget,
}

/// Returns the maximum deletions from a dispatch chain; with more, the chain is written whole.
///
/// On nft a deletion reads every rule before the one that it searches, and the first deletion also
/// fetches the chain from the kernel:
///
/// | Services | one deletion | fetching the chain | whole chain | break-even    |
/// |----------|--------------|--------------------|-------------|---------------|
/// | 1,000    | 0.5 ms       |                    | 33 ms       | 55 deletions  |
/// | 10,000   | 3.7 ms       | 92 ms              | 480 ms      | 105 deletions |
///
/// 80 is halfway between. On legacy there is no difference up to 4,000 deletions of 10,000, and
/// nothing was measured beyond.
pub(super) const fn most_deletions(backend: Backend) -> usize {
    match backend {
        Backend::Nft => 80,
        Backend::Legacy => 4_000,
    }
}

/// Returns the order of a dispatch chain that is written whole.
///
/// On nft the target of each rule is put on the list that [`MAX_INLINE_DECLARATIONS`] describes:
/// in descending order of targets the rules of 10,000 Services take 480 ms instead of 696, and
/// there is no difference for 1,000.
pub(super) const fn order(backend: Backend) -> DispatchOrder {
    match backend {
        Backend::Nft => DispatchOrder::ByTarget,
        Backend::Legacy => DispatchOrder::ByService,
    }
}

/// Maximum chains of a partial payload with inline declarations, on nft.
///
/// `iptables-nft` keeps the chains of its input in a linked list that is sorted by name, and for
/// each line searches it linearly, from the front. A chain whose name comes before all others is
/// put at the front without a search, and lies in memory next to those that are searched with it.
/// All endpoints of a part of 10,000 Services, eleven chains for each Service:
///
/// | Services | inline   | declarations first |
/// |----------|----------|--------------------|
/// | 500      | 431 ms   | 367 ms             |
/// | 1,000    | 1,359 ms | 763 ms             |
/// | 2,000    | 7,828 ms | 2,112 ms           |
///
/// With fewer than 200 Services there is no difference, and a declaration next to its rules is
/// easier to read.
const MAX_INLINE_DECLARATIONS: usize = 2_000;

/// Returns the position of the declarations in a partial payload with this many chains.
pub(super) const fn declarations(backend: Backend, chains: usize) -> Declarations {
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

/// Returns the position of the declarations in a full payload for this many endpoints. `is_bare`:
/// the kernel has no Service chain.
pub(super) const fn full_declarations(
    backend: Backend,
    is_bare: bool,
    endpoints: usize,
) -> Declarations {
    match backend {
        Backend::Legacy if is_bare && endpoints > MAX_ENDPOINTS_INLINE => Declarations::First,
        Backend::Nft | Backend::Legacy => Declarations::Inline,
    }
}

/// Sizes of a partial payload and of the nat table.
#[derive(Debug, Clone, Copy)]
pub(super) struct NatSizes {
    /// Chains in the payload.
    pub(super) chains: u64,
    /// Rules in the payload.
    pub(super) rules: u64,
    /// Rules of the proxy in nat before the restore, as the applied state counts them.
    pub(super) applied_rules: u64,
}

impl NatSizes {
    /// Reports whether the payload begins with `-S`, so that `iptables-nft` reads all chains at
    /// once and need not search its list for each line.
    ///
    /// The cost of the search grows with the square of the payload, that of `-S` with the table:
    /// 8.5 us a rule. With declarations first, the break-even is at 2,000 of 10,000 Services, and
    /// at 700 of 1,000.
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

/// Number of chains that searches pass, over all lines, in the time in which `-S` reads one rule.
const SEARCH_STEPS_PER_READ_RULE: u64 = 7_500;
