//! Everything known of one Service in one family: the Service and its slices.
//!
//! The unit of change. Cheap to clone, so that the state before a change can be kept and compared.

use std::sync::Arc;

use super::endpoint::Slice;
use super::name::{ServiceName, SliceName};
use super::service::Service;

/// A Service, its slices, or both: either may arrive first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceState {
    /// The Service; `None` while only slices are known.
    pub service: Option<Arc<Service>>,
    /// The slices, sorted by name.
    pub slices: Vec<(SliceName, Arc<Slice>)>,
}

impl ServiceState {
    /// Nothing is known: as if the Service had never been.
    pub fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }
}

/// Every Service there is, sorted by name.
///
/// A trait so that the renderer can walk through them, twice and piece by piece, without knowing
/// who keeps them.
pub trait Services {
    /// All of them.
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_>;

    /// One of them.
    fn get(&self, name: &ServiceName) -> Option<&ServiceState>;
}
