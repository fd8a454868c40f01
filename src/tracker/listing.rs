//! Lists in progress: objects that a new list has confirmed, and kinds that have been listed.
//!
//! A list may be repeated at any time, and until it is complete the objects before it stay: they
//! are marked while it runs, and the unmarked ones are removed at its end.

use crate::model::Kind;

/// Number of a list. Each object has that of the list in which it was last seen.
pub(super) type ListNumber = u32;

/// Lists of one kind.
#[derive(Debug, Default, Clone, Copy)]
struct KindListing {
    last: ListNumber,
    is_complete_once: bool,
}

/// Lists of all kinds.
#[derive(Debug, Default)]
pub(super) struct Listings {
    service: KindListing,
    slice: KindListing,
    node: KindListing,
}

impl Listings {
    /// Returns the number of the current list of a kind.
    pub(super) fn current(&self, kind: Kind) -> ListNumber {
        self.of(kind).last
    }

    /// Begins a list; an unfinished one before it has no effect.
    pub(super) fn begin(&mut self, kind: Kind) {
        let listing = self.of_mut(kind);
        listing.last = listing.last.wrapping_add(1);
    }

    /// Ends a list.
    pub(super) fn complete(&mut self, kind: Kind) {
        self.of_mut(kind).is_complete_once = true;
    }

    /// Reports whether every kind has been listed: before that, an object may be unknown and
    /// exist.
    pub(super) fn all_complete(&self) -> bool {
        [Kind::Service, Kind::EndpointSlice, Kind::Node]
            .into_iter()
            .all(|kind| self.of(kind).is_complete_once)
    }

    const fn of(&self, kind: Kind) -> &KindListing {
        match kind {
            Kind::Service => &self.service,
            Kind::EndpointSlice => &self.slice,
            Kind::Node => &self.node,
        }
    }

    const fn of_mut(&mut self, kind: Kind) -> &mut KindListing {
        match kind {
            Kind::Service => &mut self.service,
            Kind::EndpointSlice => &mut self.slice,
            Kind::Node => &mut self.node,
        }
    }
}
