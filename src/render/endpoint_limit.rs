//! Limits the number of endpoints for which one Service gets rules.
//!
//! Kept separate from the [plan](super::plan) of one port because the limit is that of a whole
//! Service.

use crate::model::{Service, ServicePort, ServiceState};
use crate::select::{EndpointGroups, PortEndpoints};

/// The most endpoints that one Service may have, all its ports together: as many as the largest
/// cluster that is measured has in all. Whoever may write EndpointSlices can have twenty thousand
/// ports in each, with a thousand endpoints: four such objects are more chains than any node has
/// memory for, and with the process dies every other Service's update.
///
/// Differs from upstream, which writes them all, or tries to.
pub const MOST_ENDPOINTS: usize = 250_000;

/// Returns the ports of a Service, each with the endpoints that get rules. A port that does not fit
/// into the limit alongside the ports before it is treated as one without endpoints.
pub fn ports<'g, 'a>(
    service: &'a Service,
    groups: &'g EndpointGroups<'a>,
) -> impl Iterator<Item = (&'a ServicePort, PortEndpoints<'g, 'a>)> {
    limited(service, groups).map(|(port, endpoints)| (port, endpoints.unwrap_or_default()))
}

/// Returns the number of ports of a Service that are over the limit.
pub fn ports_over_limit(state: &ServiceState) -> usize {
    let Some(service) = &state.service else {
        return 0;
    };
    let groups = EndpointGroups::of(state);
    let limited = limited(service, &groups);
    limited.filter(|(_, endpoints)| endpoints.is_none()).count()
}

/// The endpoints of each port; `None` if they do not fit.
fn limited<'g, 'a>(
    service: &'a Service,
    groups: &'g EndpointGroups<'a>,
) -> impl Iterator<Item = (&'a ServicePort, Option<PortEndpoints<'g, 'a>>)> {
    let mut rest = MOST_ENDPOINTS;
    service.ports.iter().map(move |port| {
        let endpoints = groups.of_port(port);
        let Some(left) = rest.checked_sub(endpoints.count()) else {
            return (port, None);
        };
        rest = left;
        (port, Some(endpoints))
    })
}
