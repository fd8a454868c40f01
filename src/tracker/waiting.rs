//! How much of what the cluster wants is not in the kernel yet.
//!
//! Apart from [`dirty`](super::dirty), which knows the Services: these are the numbers that
//! operators see, objects of each kind counted apart.

/// Objects that differ from what was last settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Services, whatever their endpoints do.
    pub services: usize,
    /// `EndpointSlices`; one that went from one Service to another counts for both.
    pub slices: usize,
}
