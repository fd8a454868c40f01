//! Selects the form of a payload that is the cheapest for the restore program.
//!
//! The figures are those of programs and kernels; `cargo bench --bench emission` measures them.

use crate::rules::Backend;

/// Position of chain lines in a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Declarations {
    /// Each before the rules of its chain.
    Inline,
    /// All before the first rule, the last name first.
    First,
}

/// Order of the rules in a dispatch chain that is written whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DispatchOrder {
    /// By Service.
    ByService,
    /// By the chains that they lead to, the last name first.
    ByTarget,
}

/// Returns the maximum deletions from a dispatch chain; more cost more than to write it whole.
///
/// Both grow with the chain. On nft a deletion reads every rule before the one that it searches:
/// 0.5 ms with 1,000 Services, 3.7 ms with 10,000, and the first of them fetches the chain
/// besides, some 92 ms with 10,000; the whole chain takes 33 and 480 ms. They meet at 55 and 105.
/// On legacy there is no difference up to 4,000 deletions of 10,000, and nothing was measured
/// beyond.
pub(super) const fn most_deletions(backend: Backend) -> usize {
    match backend {
        Backend::Nft => 80,
        Backend::Legacy => 4_000,
    }
}

/// Returns the order of a dispatch chain that is written whole.
///
/// On nft each rule's target is put on the list of [`MAX_INLINE_DECLARATIONS`]: 480 ms instead of 696 for the
/// rules of 10,000 Services, no difference for 1,000.
pub(super) const fn order(backend: Backend) -> DispatchOrder {
    match backend {
        Backend::Nft => DispatchOrder::ByTarget,
        Backend::Legacy => DispatchOrder::ByService,
    }
}

/// Maximum chains of a partial payload with inline chain lines, on nft.
///
/// For each line the program searches its chain in a list that is sorted by name, from the front.
/// A chain that comes before all others is put there without a search, and lies in memory next to
/// those that are searched with it. All endpoints of 500, 1,000 and 2,000 of 10,000 Services,
/// which are eleven chains each: 367, 763 and 2,112 ms instead of 431, 1,359 and 7,828. Of fewer
/// than 200 there is no difference, and a chain line next to its rules is easier to read.
const MAX_INLINE_DECLARATIONS: usize = 2_000;

/// Returns the position of the chain lines in a partial payload with this many chains.
pub(super) const fn declarations(backend: Backend, chains: usize) -> Declarations {
    match backend {
        Backend::Nft if chains > MAX_INLINE_DECLARATIONS => Declarations::First,
        Backend::Nft | Backend::Legacy => Declarations::Inline,
    }
}

/// Maximum endpoints of a full payload with inline chain lines, on legacy, if the kernel has no
/// chain of a Service yet.
///
/// The program keeps its chains in the order of their names, and one that comes before all others
/// is put there without a search. 10,000 Services of five endpoints take 1.3 s of CPU instead of
/// 1.7, and 20,000 take 3.6 instead of 6.8; of 3,000 there is hardly a difference. Where chains
/// exist already it is the other way round: 6.9 s instead of 3.3 for 20,000.
const MAX_ENDPOINTS_INLINE: usize = 15_000;

/// Returns the position of the chain lines in a full payload for this many endpoints. `is_bare`:
/// the kernel has no chain of a Service.
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
    /// Rules in the kernel before the restore.
    pub(super) applied_rules: u64,
}

impl NatSizes {
    /// Reports whether to make the program read all chains before it starts, so that it need not
    /// search.
    ///
    /// The search grows with the square of the payload, reading with the table: 8.5 us a rule.
    /// With chain lines first they meet at 2,000 of 10,000 Services, and at 700 of 1,000.
    pub(super) const fn is_worth_listing(self, backend: Backend) -> bool {
        match backend {
            Backend::Nft => {
                self.chains * (self.chains + self.rules)
                    > SEARCHED_PAIRS_PER_READ_RULE * self.applied_rules
            }
            Backend::Legacy => false,
        }
    }
}

/// Number of pairs of a line and a chain that are searched in the time in which a rule is read.
const SEARCHED_PAIRS_PER_READ_RULE: u64 = 7_500;
