//! Which of several ways to say the same is the cheapest for the restore program.
//!
//! Apart from [`changes`](super::changes), which writes, because these are figures of programs and
//! kernels, not of rules. `cargo bench --bench emission` measures them.

use super::chain_text::Headers;
use crate::rules::Backend;

/// More deletions than this from a dispatch chain cost more than to write it anew.
///
/// Both grow with the chain. On nft a deletion reads every rule before the one that it looks for:
/// 0.5 ms with 1,000 Services, 3.7 ms with 10,000, and the first of them fetches the chain besides,
/// some 92 ms with 10,000; the whole chain takes 33 and 480 ms. They meet at 55 and 105. On legacy
/// there is no difference up to 4,000 deletions of 10,000, and nothing was measured beyond.
pub(super) const fn most_deletions(backend: Backend) -> usize {
    match backend {
        Backend::Nft => 80,
        Backend::Legacy => 4_000,
    }
}

/// In which order the rules of a dispatch chain are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// By Service.
    ByService,
    /// By the chains that they lead to, the last name first.
    ByTarget,
}

/// The order of a dispatch chain that is written anew.
///
/// On nft each rule's target is put on the list of [`MOST_BESIDE`]: 480 ms instead of 696 for the
/// rules of 10,000 Services, no difference for 1,000.
pub(super) const fn order(backend: Backend) -> Order {
    match backend {
        Backend::Nft => Order::ByTarget,
        Backend::Legacy => Order::ByService,
    }
}

/// More chains than this have their headers first, on nft.
///
/// For each line the program looks for its chain in a list that is sorted by name, from the front.
/// A chain that comes before all others is put there without a search, and lies in memory beside
/// those that are looked through with it. All endpoints of 500, 1,000 and 2,000 of 10,000 Services,
/// which are eleven chains each: 367, 763 and 2,112 ms instead of 431, 1,359 and 7,828. Of fewer
/// than 200 there is no difference, and a header beside its rules is easier to read.
const MOST_BESIDE: usize = 2_000;

/// Where to put the headers of so many chains.
pub(super) const fn headers(backend: Backend, chains: usize) -> Headers {
    match backend {
        Backend::Nft if chains > MOST_BESIDE => Headers::First,
        Backend::Nft | Backend::Legacy => Headers::Beside,
    }
}

/// More endpoints than this have the headers of a full payload first, on legacy, where no chain of
/// a Service is there yet.
///
/// The program keeps its chains in the order of their names, and one that comes before all others
/// is put there without a search. 10,000 Services of five endpoints take 1.3 s of CPU instead of
/// 1.7, and 20,000 take 3.6 instead of 6.8; of 3,000 there is hardly a difference. Where chains are
/// there already it is the other way round: 6.9 s instead of 3.3 for 20,000.
const MOST_ENDPOINTS_BESIDE: usize = 15_000;

/// Where to put the headers of a full payload for so many endpoints. `is_bare`: there is no chain
/// of a Service in the kernel.
pub(super) const fn full_headers(backend: Backend, is_bare: bool, endpoints: usize) -> Headers {
    match backend {
        Backend::Legacy if is_bare && endpoints > MOST_ENDPOINTS_BESIDE => Headers::First,
        Backend::Nft | Backend::Legacy => Headers::Beside,
    }
}

/// How much of the nat table a payload names, and how much there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// Chains in the payload.
    pub(super) chains: u64,
    /// Rules in the payload.
    pub(super) rules: u64,
    /// Rules in the kernel, before it is given the payload.
    pub(super) held: u64,
}

impl Reach {
    /// Whether to make the program read all chains before it starts, so that it need not search.
    ///
    /// The search grows with the square of the payload, reading with the table: 8.5 us a rule. With
    /// headers first they meet at 2,000 of 10,000 Services, and at 700 of 1,000.
    pub(super) const fn is_worth_listing(self, backend: Backend) -> bool {
        match backend {
            Backend::Nft => self.chains * (self.chains + self.rules) > PAIRS * self.held,
            Backend::Legacy => false,
        }
    }
}

/// How many pairs of a line and a chain are searched in the time in which a rule is read.
const PAIRS: u64 = 7_500;
