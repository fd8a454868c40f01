//! How many connections some servers have together, and whose turn it is to go.
//!
//! Apart from the [server](super::http) because it is the answer to one question: what a flood
//! costs. A client that waited for a place would wait for strangers to leave, and any pod can fill
//! all places with connections that say nothing: then kubelet's probe waits, too, and kubelet kills
//! the daemon. So nobody waits, and who has been here longest goes. A flood has to be faster than a
//! probe is answered to hurt it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Room for some connections. Clones share it.
#[derive(Debug, Clone)]
pub struct Room {
    most: usize,
    /// The oldest first.
    places: Arc<Mutex<VecDeque<CancellationToken>>>,
}

impl Room {
    /// Room for so many connections, one at least.
    pub fn new(connections: usize) -> Self {
        Self {
            most: connections.max(1),
            places: Arc::default(),
        }
    }

    /// A place, if need be that of the oldest.
    pub(super) fn enter(&self) -> Place {
        let place = CancellationToken::new();
        let mut places = self.places();
        while places.len() >= self.most {
            if let Some(oldest) = places.pop_front() {
                oldest.cancel();
            }
        }
        places.push_back(place.clone());
        Place {
            room: self.clone(),
            place,
        }
    }

    /// Takes the place of the oldest away.
    pub(super) fn make(&self) -> Made {
        match self.places().pop_front() {
            Some(oldest) => {
                oldest.cancel();
                Made::Place
            }
            None => Made::Nothing,
        }
    }

    /// A panic while it was locked leaves nothing half done.
    fn places(&self) -> MutexGuard<'_, VecDeque<CancellationToken>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What could be made of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// A place.
    Place,
    /// Nothing: nobody is there.
    Nothing,
}

/// A connection's place in its room, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Room,
    place: CancellationToken,
}

impl Place {
    /// Ends when it is somebody else's.
    pub(super) fn lost(&self) -> WaitForCancellationFuture<'_> {
        self.place.cancelled()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The mark tells it from the others: nobody but its place has been handed it.
        let was_lost = self.place.is_cancelled();
        self.place.cancel();
        if !was_lost {
            self.room.places().retain(|place| !place.is_cancelled());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_lost(place: &Place) -> bool {
        place.lost().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_goes() {
        let room = Room::new(2);
        let (first, second) = (room.enter(), room.clone().enter());
        assert!(!is_lost(&first));
        let third = room.enter();
        assert!(is_lost(&first) && !is_lost(&second) && !is_lost(&third));
        drop(first);
        assert_eq!(room.places().len(), 2);
    }

    #[test]
    fn who_left_makes_room() {
        let room = Room::new(2);
        let first = room.enter();
        drop(room.enter());
        let third = room.enter();
        assert!(!is_lost(&first) && !is_lost(&third));
        drop((first, third));
        assert!(room.places().is_empty());
    }
}
