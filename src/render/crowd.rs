//! Which ports of a Service have rules for their endpoints: all, as long as there is any sense in
//! it.
//!
//! Apart from the [plan](super::plan) of one port because the limit is that of a whole Service.

use crate::model::{ServicePort, ServiceState};
use crate::select;

/// How many endpoints one Service may have, all its ports together: as many as the largest cluster
/// that is measured has in all. Whoever may write EndpointSlices can have twenty thousand
/// ports in each, with a thousand endpoints: four such objects are more chains than any node has
/// memory for, and with the process dies every other Service's update.
///
/// Differs from upstream, which writes them all, or tries to.
pub const MOST_ENDPOINTS: usize = 250_000;

/// Whether the endpoints of a port are too many beside those of the ports before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowd {
    /// They have rules.
    Fits,
    /// The port is as one without endpoints.
    TooLarge,
}

/// The ports of a Service, each with what is to become of its endpoints.
pub fn ports(state: &ServiceState) -> impl Iterator<Item = (&ServicePort, Crowd)> {
    let mut room = MOST_ENDPOINTS;
    let ports = state.service.iter().flat_map(|service| &service.ports);
    ports.map(
        move |port| match room.checked_sub(select::count(state, port)) {
            Some(rest) => {
                room = rest;
                (port, Crowd::Fits)
            }
            None => (port, Crowd::TooLarge),
        },
    )
}

/// How many ports of a Service are refused because they have too many endpoints.
pub fn overcrowded(state: &ServiceState) -> usize {
    let ports = ports(state).filter(|(_, crowd)| *crowd == Crowd::TooLarge);
    ports.count()
}
