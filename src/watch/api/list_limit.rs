//! Limits of one list as a whole, whether it comes in pages or as the events that a watch begins
//! with.
//!
//! Kept separate from both because they bring the same list. A server that never ends it would
//! keep its kind from ever being known, and take all memory.

use std::time::Duration;

use tokio::time::Instant;

use super::error::{ApiError, malformed};

/// In bytes, of all objects of a kind as they come: those of a cluster of 5,000 nodes, twice.
const MOST_BYTES: usize = 512 * 1024 * 1024;

/// Objects of a kind, ten times as many as in the largest clusters. Needed next to [`MOST_BYTES`]:
/// an object of two bytes takes hundreds of memory.
pub(super) const MOST_OBJECTS: usize = 1_000_000;

/// Rest of a list that is within its limits.
#[derive(Debug)]
pub(super) struct ListLimit {
    deadline: Instant,
    bytes: usize,
    objects: usize,
}

impl ListLimit {
    /// The limit of a list that begins now and may take this long.
    pub(super) fn new(time: Duration) -> Self {
        Self {
            deadline: Instant::now() + time,
            bytes: MOST_BYTES,
            objects: MOST_OBJECTS,
        }
    }

    /// When the list must be complete.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Counts bytes that came.
    ///
    /// # Errors
    ///
    /// It is too late, or they are too many: the list must be given up.
    pub(super) fn add_bytes(&mut self, bytes: usize) -> Result<(), ApiError> {
        if Instant::now() >= self.deadline {
            return Err(malformed("a list takes too long"));
        }
        self.bytes = left(self.bytes, bytes)?;
        Ok(())
    }

    /// Counts objects that came.
    ///
    /// # Errors
    ///
    /// They are too many: the list must be given up.
    pub(super) fn add_objects(&mut self, objects: usize) -> Result<(), ApiError> {
        self.objects = left(self.objects, objects)?;
        Ok(())
    }
}

/// Fails if more came than was left.
fn left(most: usize, count: usize) -> Result<usize, ApiError> {
    most.checked_sub(count)
        .ok_or_else(|| malformed("a list is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_objects_up_to_the_limit_are_a_list() {
        let mut limit = ListLimit::new(Duration::from_secs(60));
        limit.add_bytes(MOST_BYTES - 1).unwrap();
        limit.add_bytes(1).unwrap();
        limit.add_objects(MOST_OBJECTS).unwrap();
        for error in [limit.add_bytes(1), limit.add_objects(1)] {
            let text = error.unwrap_err().in_full();
            assert_eq!(text, "the answer cannot be read: a list is too long");
        }
        limit.add_objects(0).unwrap();
    }
}
