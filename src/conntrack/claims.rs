//! How many Services claim each UDP destination.
//!
//! Apart because it is the one thing here that is remembered from sync to sync: what a Service
//! gives up may be another's, too, and asking all others each time would cost the more the more
//! there are.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::flow::Destination;

/// The claims of all Services that the kernel has, as [`left_behind`](super::left_behind) was told
/// of them. Default: of none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Claims(HashMap<Destination, usize>);

impl Claims {
    /// One more Service has it.
    pub(super) fn add(&mut self, destination: Destination) {
        *self.0.entry(destination).or_default() += 1;
    }

    /// One Service less has it.
    pub(super) fn remove(&mut self, destination: Destination) {
        if let Entry::Occupied(mut count) = self.0.entry(destination) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Whether any Service has it.
    pub(super) fn has(&self, destination: &Destination) -> bool {
        self.0.contains_key(destination)
    }
}
