//! How much of what the cluster wants is not in the kernel yet.
//!
//! Apart from [`dirty`](super::dirty), which knows the Services: these are the numbers that
//! operators see, objects of each kind counted apart.

use std::ops::{AddAssign, SubAssign};
use std::sync::Arc;

use crate::model::{ServiceState, Slice, SliceName};

/// Objects that differ from what was last settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Services, whatever their endpoints do.
    pub services: usize,
    /// `EndpointSlices`; one that went from one Service to another counts for both.
    pub slices: usize,
}

impl Waiting {
    /// What differs between two states of a Service; nothing exactly if they are the same.
    pub(super) fn between(before: &ServiceState, now: &ServiceState) -> Self {
        Self {
            services: usize::from(before.service != now.service),
            slices: differing(&before.slices, &now.slices),
        }
    }
}

impl AddAssign for Waiting {
    fn add_assign(&mut self, other: Self) {
        self.services += other.services;
        self.slices += other.slices;
    }
}

/// What was added before is taken away again, so that no number falls below zero.
impl SubAssign for Waiting {
    fn sub_assign(&mut self, other: Self) {
        self.services -= other.services;
        self.slices -= other.slices;
    }
}

type NamedSlice = (SliceName, Arc<Slice>);

/// How many slices are in one of the two only, or differ. Both are sorted by name.
fn differing(before: &[NamedSlice], now: &[NamedSlice]) -> usize {
    let mut count = 0;
    let mut now = now.iter().peekable();
    for (name, slice) in before {
        while now.next_if(|(other, _)| other < name).is_some() {
            count += 1;
        }
        let found = now.next_if(|(other, _)| other == name);
        if found.is_none_or(|(_, other)| other != slice) {
            count += 1;
        }
    }
    count + now.count()
}
