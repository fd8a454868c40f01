//! Everything known of one Service in one family: the Service and its slices.
//!
//! The unit of change. Cheap to clone, so that the state before a change can be kept and compared.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::endpoint::Slice;
use super::frontend::{Frontend, PortFrontend};
use super::limits::Allowance;
use super::name::{ServiceName, SliceName};
use super::service::Service;
use crate::net::Port;

/// A Service, its slices, or both: either may arrive first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceState {
    /// The Service; `None` while only slices are known.
    pub service: Option<Arc<Service>>,
    /// The slices, sorted by name.
    pub slices: Vec<(SliceName, Arc<Slice>)>,
    /// The frontends that the Service asks for and does not have, because another service port
    /// comes first.
    pub lost: BTreeSet<PortFrontend>,
    /// Rules that the limits of its namespace leave to the Service.
    pub allowance: Allowance,
}

impl ServiceState {
    /// Nothing is known: as if the Service had never been. Then no limit applies either.
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
