//! Lists in progress: which objects a new list has confirmed, and which kinds have listed.
//!
//! Apart because a list is repeated at any time, and until it is complete the old objects stay in
//! force: mark while it runs, sweep when it ends.

use crate::model::Kind;

/// A round of listing; objects carry the round in which they were last seen.
pub(super) type Round = u32;

/// The state of one kind.
#[derive(Debug, Default, Clone, Copy)]
struct Listing {
    round: Round,
    is_complete_once: bool,
}

/// The state of all kinds.
#[derive(Debug, Default)]
pub(super) struct Listings {
    service: Listing,
    slice: Listing,
    node: Listing,
}

impl Listings {
    /// The round that objects of `kind` are seen in now.
    pub(super) fn round(&self, kind: Kind) -> Round {
        self.of(kind).round
    }

    /// A new list begins; an unfinished one before it counts for nothing.
    pub(super) fn begin(&mut self, kind: Kind) {
        let listing = self.of_mut(kind);
        listing.round = listing.round.wrapping_add(1);
    }

    /// The list is complete.
    pub(super) fn complete(&mut self, kind: Kind) {
        self.of_mut(kind).is_complete_once = true;
    }

    /// Whether every kind has been listed: before that, "absent" may only mean "not heard of yet".
    pub(super) fn all_complete(&self) -> bool {
        [Kind::Service, Kind::EndpointSlice, Kind::Node]
            .into_iter()
            .all(|kind| self.of(kind).is_complete_once)
    }

    const fn of(&self, kind: Kind) -> &Listing {
        match kind {
            Kind::Service => &self.service,
            Kind::EndpointSlice => &self.slice,
            Kind::Node => &self.node,
        }
    }

    const fn of_mut(&mut self, kind: Kind) -> &mut Listing {
        match kind {
            Kind::Service => &mut self.service,
            Kind::EndpointSlice => &mut self.slice,
            Kind::Node => &mut self.node,
        }
    }
}
