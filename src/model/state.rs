//! State of one Service in one family: the Service, its slices, and what limits and conflicts
//! leave of them.
//!
//! Cheap to clone, so that the tracker can keep the state before a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::endpoint::Slice;
use super::frontend::{Frontend, PortFrontend};
use super::limits::Allowance;
use super::name::{ServiceName, SliceName};
use super::service::Service;
use crate::net::Port;

/// Service, slices, or both: either may arrive first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceState {
    /// Service; `None` while only slices are known.
    pub service: Option<Arc<Service>>,
    /// Slices, sorted by name.
    pub slices: Vec<(SliceName, Arc<Slice>)>,
    /// Frontends that the Service asks for and another service port has.
    pub lost: BTreeSet<PortFrontend>,
    /// Rules that the limits of its namespace allow.
    pub allowance: Allowance,
}

impl ServiceState {
    /// Adds a slice, or removes it if `slice` is `None`; returns the one before. To move 20,000
    /// entries takes 20 us, less than to decode the object, and lists come in this order.
    pub fn replace_slice(
        &mut self,
        name: &SliceName,
        slice: Option<Arc<Slice>>,
    ) -> Option<Arc<Slice>> {
        let position = self.slices.binary_search_by(|(known, _)| known.cmp(name));
        match (position, slice) {
            (Ok(at), Some(slice)) => {
                let entry = self.slices.get_mut(at);
                entry.map(|(_, known)| std::mem::replace(known, slice))
            }
            (Ok(at), None) => Some(self.slices.remove(at).1),
            (Err(at), Some(slice)) => {
                self.slices.insert(at, (name.clone(), slice));
                None
            }
            (Err(_), None) => None,
        }
    }

    /// Reports whether nothing is known of the Service, as before its first change.
    pub fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty() && self.lost.is_empty()
    }

    /// Returns the health check node port, if the Service asks for one and has it.
    pub fn health_check(&self) -> Option<Port> {
        let service = self
            .service
            .as_ref()
            .filter(|service| !service.ports.is_empty())?;
        let number = service.health_check_node_port?;
        self.has(0, Frontend::HealthCheck(number)).then_some(number)
    }

    /// Reports whether a frontend that the port at this position asks for is its own.
    pub fn has(&self, port: u16, frontend: Frontend) -> bool {
        self.allowance != Allowance::NoRules
            && !self.lost.contains(&PortFrontend { port, frontend })
    }
}

/// All Services, sorted by name.
///
/// The tracker implements it, and a view with other states in place of some.
pub trait Services {
    /// Returns all Services.
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_>;

    /// Returns the state of one Service.
    fn get(&self, name: &ServiceName) -> Option<&ServiceState>;
}
