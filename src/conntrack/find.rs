//! What a sync may have left behind: the destinations that it sends elsewhere.
//!
//! Apart because it is the only part that knows what a Service is.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/cleanup.go, `CleanStaleEntries` (v1.36)

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::flow::Destination;
use super::suspects::{Keep, Suspects};
use crate::model::{Frontend, ServiceName, ServicePort, ServiceState, Services};
use crate::net::Protocol;
use crate::render::{Options, ports};
use crate::select::{EndpointGroups, PortEndpoints};

/// What is left behind by a sync after which `now` is in the kernel, where `before` was there of
/// the Services that changed. A destination is one Service's alone: where it goes from one to
/// another, both changed.
///
/// Differs from upstream: a Service whose own ports or addresses changed counts, too, and one that
/// is gone; and one that has lost all endpoints loses its flows, so that clients are refused at
/// once and do not talk to nobody. Only what changed is looked at, where upstream looks at every
/// Service each time.
pub fn left_behind(
    before: &[(ServiceName, ServiceState)],
    now: &dyn Services,
    options: &Options,
) -> Suspects {
    let mut suspects = Suspects::default();
    let mut gone = Vec::new();
    for (name, before) in before {
        let mut before = destinations(before, options);
        let now = now.get(name).map(|state| destinations(state, options));
        for (destination, endpoints) in now.unwrap_or_default() {
            let keep = Keep::AnsweredBy(Arc::clone(&endpoints));
            match before.remove(&destination) {
                Some(known) if only_gained(&known, &endpoints) => suspects.widen(destination, keep),
                Some(_) | None => suspects.look_at(destination, keep),
            }
        }
        gone.extend(before.into_keys());
    }
    // Those that another Service has now are looked at already.
    for destination in gone {
        suspects.look_at(destination, Keep::Untranslated);
    }
    suspects
}

/// The same when nobody knows what flows have met, because the rules were gone for a while.
pub fn all(now: &dyn Services, options: &Options) -> Suspects {
    let mut suspects = Suspects::default();
    for (_, state) in now.all() {
        for (destination, endpoints) in destinations(state, options) {
            suspects.look_at(destination, Keep::AnsweredBy(endpoints));
        }
    }
    suspects
}

/// Whether every flow that was right is right still, and none is wrong for a reason that is new.
/// Where there was no endpoint and now there is, flows were let pass or refused while there were no
/// rules for them.
fn only_gained(before: &[SocketAddr], now: &[SocketAddr]) -> bool {
    let is_first = before.is_empty() && !now.is_empty();
    !is_first && before.iter().all(|known| now.binary_search(known).is_ok())
}

/// Every UDP destination that a Service has, with the endpoints that its flows may keep.
fn destinations(
    state: &ServiceState,
    options: &Options,
) -> HashMap<Destination, Arc<[SocketAddr]>> {
    let mut destinations = HashMap::new();
    let Some(service) = state.service.as_deref() else {
        return destinations;
    };
    let is_udp = |port: &ServicePort| port.protocol == Protocol::Udp;
    if !service.ports.iter().any(is_udp) {
        return destinations;
    }
    let groups = EndpointGroups::of(state);
    let endpoints: Vec<_> = ports(service, &groups)
        .map(|(port, endpoints)| {
            let endpoints = is_udp(port).then_some(endpoints);
            endpoints.map_or_else(Arc::default, keeping_flows)
        })
        .collect();
    for (of, _) in service.frontends(options.external_ips) {
        let destination = match of.frontend {
            Frontend::Address(ip, port, Protocol::Udp) => {
                Destination::Address(SocketAddr::new(ip, port.get()))
            }
            Frontend::NodePort(port, Protocol::Udp) => Destination::NodePort(port),
            _ => continue,
        };
        if let Some(endpoints) = endpoints.get(usize::from(of.port))
            && state.has(of.port, of.frontend)
        {
            destinations.insert(destination, Arc::clone(endpoints));
        }
    }
    destinations
}

/// Whoever may keep the flows it has, sorted: also those that get no new ones, because they are on
/// their way out, or because a policy or a hint prefers others.
///
/// Differs from upstream: one that is ready but does not serve (`publishNotReadyAddresses`) keeps
/// its flows, too. New ones are sent to it, so upstream takes away what its own rules gave.
fn keeping_flows(endpoints: PortEndpoints<'_, '_>) -> Arc<[SocketAddr]> {
    let usable = endpoints.all().filter(|(e, _)| e.is_serving || e.is_ready);
    let mut endpoints: Vec<_> = usable
        .map(|(endpoint, port)| SocketAddr::new(endpoint.ip, port.get()))
        .collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints.into()
}
