//! Finds addresses that may be the node's, and would change the result if they were.
//!
//! Packets to the node's own address take other hooks: they enter `INPUT` and are not masqueraded
//! on their way in. Whether it matters is tried out, because mostly it does not.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::client::{Client, ClientKind};
use super::destination::PacketDestination;
use super::node::NodeRules;
use super::path::{PacketPath, PathResult};
use super::trace::outcomes;
use crate::inspect::catalog::FrontendKind;
use crate::rules::{Locality, Share, Verdict};

/// Maximum addresses that are tried: each costs a trace for every client.
const MAX_TRIED: usize = 16;

/// Returns the addresses of the destination and its endpoints with which the result would differ if
/// they were the node's, sorted. Empty if addresses of the node are known.
pub(super) fn possible_node_addresses(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    paths: &[PacketPath<'_>],
) -> Vec<IpAddr> {
    if node.assumed_ip().is_none() {
        return Vec::new();
    }
    let branches = paths.iter().flat_map(|path| &path.branches);
    let endpoints = branches.filter_map(|branch| match &branch.result {
        PathResult::Served { to, .. } => Some(to.ip()),
        _ => None,
    });
    // A cluster IP is never the node's; of other addresses the suggestions tell.
    let is_external = |kind| {
        matches!(
            kind,
            FrontendKind::ExternalIp | FrontendKind::LoadBalancer | FrontendKind::External
        )
    };
    let mut frontends = to.frontends.iter();
    let own = frontends
        .any(|frontend| is_external(frontend.kind))
        .then_some(to.ip);
    let mut candidates: BTreeSet<IpAddr> = endpoints.chain(own).collect();
    candidates.retain(|ip| !node.detector.has(*ip) && !node.locality.is_local(*ip));
    let clients: Vec<&Client> = paths.iter().flat_map(|path| &path.clients).collect();
    let differs = |candidate: &IpAddr| {
        let mut clients = clients.iter();
        clients.any(|client| differs_for(node, to, client, *candidate))
    };
    let tried = candidates.into_iter().take(MAX_TRIED);
    tried.filter(differs).collect()
}

/// Reports whether the packets of a client are treated differently if an address is the node's.
fn differs_for(
    node: &NodeRules<'_>,
    to: &PacketDestination,
    client: &Client,
    candidate: IpAddr,
) -> bool {
    let mut locality = node.locality.clone();
    locality.addresses.remove(&node.ip);
    locality.addresses.insert(candidate);
    let of_node = client.kind == ClientKind::Node;
    // The kernel uses a local destination address as the source as well.
    let source = if of_node && !client.ip.is_loopback() {
        candidate
    } else {
        client.ip
    };
    let in_interface = client.in_interface.as_deref();
    let effects = |locality: &Locality, source| {
        let outcomes = outcomes(node, locality, to, source, in_interface);
        let effects = outcomes.into_iter();
        let effects = effects.map(|one| (one.share, effect(one.verdict, of_node)));
        effects.collect::<Vec<(Share, Verdict)>>()
    };
    effects(&node.locality, client.ip) != effects(&locality, source)
}

/// Returns the verdict as a receiver sees it: masquerading changes nothing if the client has the
/// node's address itself.
fn effect(verdict: Verdict, is_of_node: bool) -> Verdict {
    match verdict {
        Verdict::Delivered { to, port, .. } if is_of_node => Verdict::Delivered {
            to,
            port,
            masqueraded: false,
        },
        Verdict::Passed { .. } if is_of_node => Verdict::Passed { masqueraded: false },
        other => other,
    }
}
