//! What a sync may have left behind: the destinations that it sends elsewhere.
//!
//! Apart because it is the only part that knows what a Service is.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/cleanup.go, `CleanStaleEntries` (v1.36)

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use super::claims::Claims;
use super::flow::Destination;
use super::suspects::{Keep, Suspects};
use crate::model::{Service, ServiceName, ServicePort, ServiceState, Services};
use crate::net::Protocol;
use crate::render::{ExternalIps, Options, ports};
use crate::select::{EndpointGroups, PortEndpoints};

/// What is left behind by a sync after which `now` is in the kernel, where `before` was there of
/// the Services that changed. `claims` are those of `before`, and of `now` afterwards.
///
/// Differs from upstream: a Service whose own ports or addresses changed counts, too, and one that
/// is gone; and one that has lost all endpoints loses its flows, so that clients are refused at
/// once and do not talk to nobody. Only what changed is looked at, where upstream looks at every
/// Service each time.
pub fn left_behind(
    before: &[(ServiceName, ServiceState)],
    now: &dyn Services,
    options: &Options,
    claims: &mut Claims,
) -> Suspects {
    let mut suspects = Suspects::default();
    let mut gone = HashSet::new();
    for (name, before) in before {
        let mut before = claimed(before, options);
        let now = now.get(name).map(|state| claimed(state, options));
        let now = now.unwrap_or_default();
        for (destination, endpoints) in now {
            let keep = Keep::AnsweredBy(Arc::clone(&endpoints));
            match before.remove(&destination) {
                Some(known) if only_gained(&known, &endpoints) => suspects.widen(destination, keep),
                Some(_) => suspects.look_at(destination, keep),
                None => {
                    claims.add(destination);
                    suspects.look_at(destination, keep);
                }
            }
        }
        for destination in before.into_keys() {
            claims.remove(destination);
            gone.insert(destination);
        }
    }
    gone.retain(|destination| {
        let has_heir = claims.has(destination);
        if !has_heir {
            suspects.look_at(*destination, Keep::Untranslated);
        }
        has_heir
    });
    if !gone.is_empty() {
        find_heirs(gone, now, options, &mut suspects);
    }
    suspects
}

/// The same when nobody knows what flows have met, because the rules were gone for a while.
pub fn all(now: &dyn Services, options: &Options) -> Suspects {
    let mut suspects = Suspects::default();
    for (_, state) in now.all() {
        for (destination, endpoints) in claimed(state, options) {
            suspects.look_at(destination, Keep::AnsweredBy(endpoints));
        }
    }
    suspects
}

/// What one Service has given up, another has, or has had all the time: an address outside of the
/// cluster that several share. Only for those all are walked.
fn find_heirs(
    mut gone: HashSet<Destination>,
    now: &dyn Services,
    options: &Options,
    suspects: &mut Suspects,
) {
    for (_, state) in now.all() {
        for (destination, endpoints) in claimed(state, options) {
            if gone.remove(&destination) {
                suspects.look_at(destination, Keep::AnsweredBy(endpoints));
            }
        }
    }
}

/// Whether every flow that was right is right still, and none is wrong for a reason that is new.
/// Where there was no endpoint and now there is, flows were let pass or refused while there were no
/// rules for them.
fn only_gained(before: &[SocketAddr], now: &[SocketAddr]) -> bool {
    let is_first = before.is_empty() && !now.is_empty();
    !is_first && before.iter().all(|known| now.binary_search(known).is_ok())
}

/// Every UDP destination of a Service, with the endpoints that its flows may keep.
fn claimed(state: &ServiceState, options: &Options) -> HashMap<Destination, Arc<[SocketAddr]>> {
    let mut claimed = HashMap::new();
    let Some(service) = state.service.as_deref() else {
        return claimed;
    };
    if !service
        .ports
        .iter()
        .any(|port| port.protocol == Protocol::Udp)
    {
        return claimed;
    }
    let groups = EndpointGroups::of(state);
    for (port, endpoints) in ports(service, &groups) {
        if port.protocol != Protocol::Udp {
            continue;
        }
        let endpoints = keeping_flows(endpoints);
        for destination in destinations(service, port, options.external_ips) {
            claimed.insert(destination, Arc::clone(&endpoints));
        }
    }
    claimed
}

fn destinations<'a>(
    service: &'a Service,
    port: &ServicePort,
    external_ips: ExternalIps,
) -> impl Iterator<Item = Destination> + use<'a> {
    let (number, node_port) = (port.port.get(), port.node_port);
    let external: &[_] = match external_ips {
        ExternalIps::Served => &service.external_ips,
        ExternalIps::Ignored => &[],
    };
    let ips = [service.cluster_ip].into_iter();
    let ips = ips.chain(external.iter().copied());
    let ips = ips.chain(service.load_balancer_ips.iter().copied());
    ips.map(move |ip| Destination::Address(SocketAddr::new(ip, number)))
        .chain(node_port.map(Destination::NodePort))
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
