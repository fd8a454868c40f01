//! Limits the number of endpoints for which one Service gets rules.
//!
//! Kept separate from the [plan](super::plan) of one port because the limit is that of a whole
//! Service.

use crate::model::{MOST_ENDPOINTS, Service, ServicePort, ServiceState};
use crate::select::{EndpointGroups, PortEndpoints};

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
